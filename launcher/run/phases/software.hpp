// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "plan/plan.hpp"
#include "record/software.hpp"

// Setting up a job's "software": one task on each node runs software.sh where the ranks will run.
// This file has its arguments, and the interpretation of the reports.
namespace batchai::run {

// The code of the failure if the software of a job cannot be set up.
inline constexpr const char* software_failed = "SoftwareFailed";

// Returns what software.sh is told to do, after its first three arguments.
[[nodiscard]] base::Arguments software_words(const plan::Software& software,
                                             const std::vector<std::string>& secret_names);

struct SoftwareOfNode {
    std::string node;
    std::optional<record::SoftwareReport> report;  // absent: the task has not come to its end
};

// Returns the facts of the first node, with remarks on what is different on others. All nodes must
// have reported.
[[nodiscard]] record::Software software_in_use(const std::vector<SoftwareOfNode>& nodes);

}  // namespace batchai::run
