// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "visit/stacks/answer.hpp"

namespace batchai::node {

struct StacksQuestion {
    std::string job_id;    // Slurm's
    std::string own_step;  // whose processes are left out
    bool all_threads = false;
    bool native = false;  // in C and C++ also of processes whose stacks of Python are known
};

// Looks at the processes of this user on this node that belong to steps of the job. Shells that
// only wait for another process are left out. The stacks of C and C++ are those of processes that
// show none of Python, unless all are asked for.
[[nodiscard]] visit::NodeStacks look_at_stacks(const StacksQuestion& question);

}  // namespace batchai::node
