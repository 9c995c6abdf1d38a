// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record/task_reports.hpp"

// The check of the links between the nodes, before the ranks: one task on each node runs
// mpi_bridge_links where the ranks will run. This file has the interpretation of the reports.
namespace batchai::run {

// A variable of the job. Whatever is set, but for "0", means that the links are checked.
inline constexpr const char* link_check_variable = "BATCHAI_LINK_CHECK";

// The code of the failure if a link does not carry data, or changes it.
inline constexpr const char* link_check_failed = "LinkCheckFailed";

struct LinksOfNode {
    std::string node;
    std::optional<record::LinkReport> report;  // absent: the check could not run there
};

struct LinkVerdict {
    std::string fault{};                 // a link does not carry data, or changes it; empty: none
    std::string bad_node{};              // whose links these are; empty: it may be either end's
    std::vector<std::string> remarks{};  // which links or nodes are slow
    std::string summary{};               // how fast the links are; empty: nothing was measured
};

// `nodes` are in the order of the tasks. A slow link is only remarked on.
[[nodiscard]] LinkVerdict verdict_on(const std::vector<LinksOfNode>& nodes);

}  // namespace batchai::run
