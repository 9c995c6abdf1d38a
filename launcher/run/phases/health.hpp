// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record/task_reports.hpp"

// The site's checks of the nodes: one task on each node runs the programs of the site's directory
// there (node/health.hpp). This file has the interpretation of the reports.
namespace batchai::run {

struct NodeHealth {
    std::string node;
    std::optional<record::HealthReport> report;  // absent: the node has not reported
};

struct HealthVerdict {
    struct Bad {
        std::string node;
        std::string fault;  // the first check that failed there, and what it printed
    };
    std::vector<Bad> bad{};
    std::vector<std::string> remarks{};  // for the log: all that is not in order
    int checked = 0;                     // nodes on which the checks were run
};

// A warning, and a check or node about which nothing is known, is only remarked on.
[[nodiscard]] HealthVerdict verdict_on(const std::vector<NodeHealth>& nodes);

}  // namespace batchai::run
