// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace batchai::node {

struct TaskEnvironment {
    std::vector<plan::Variable> set;  // in order: the last one of a name wins
    std::vector<std::string> unset;
};

// What a task in a container gets over the environment that Slurm brings from the submitting host.
// From weak to strong: the submitting host's, the image's, the devices', the job's (site.lua's,
// then job.json's, then secrets). What leads programs to files of the host is taken away, unless
// the image or the job sets it.
[[nodiscard]] TaskEnvironment container_environment(const plan::Container& container,
                                                    const std::vector<plan::Variable>& devices,
                                                    const std::vector<plan::Variable>& job);

}  // namespace batchai::node
