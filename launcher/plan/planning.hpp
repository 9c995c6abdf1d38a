// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "job/model.hpp"
#include "plan/findings.hpp"
#include "plan/make.hpp"
#include "plan/paths.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"

namespace batchai::plan {

// The state of one call of make(): its input, and the plan as far as it is made. The functions
// below fill it in this order, and each reports only its own faults.
struct Planning {
    const job::JobSpec& spec;
    const job::PositionTable& positions;
    const site::Site& site;
    const Submission& submission;
    Findings findings;
    Scope scope;  // the variables that strings may refer to, as far as they are known
    Plan plan;
    std::vector<Variable> mount_secrets;

    // Expands `text`, which is at `pointer`, and warns of names that are not defined.
    [[nodiscard]] std::string expand(std::string_view text, std::string_view pointer);
    // Whether `bytes` and a terminating zero are more than Linux passes to a program in one
    // argument or variable. If so, reports a fault at `pointer`.
    bool refuse_too_long(std::size_t bytes, std::string_view pointer);
};

void plan_allocation(Planning& planning);
// Plans the node and host directories, and the variables that name them.
void plan_directories(Planning& planning);
void plan_mounts(Planning& planning);
void plan_container(Planning& planning);
// Plans inputs, outputs, logs and the whole environment. Needs the directories and the mounts.
void plan_environment(Planning& planning);
// Needs the allocation and the environment.
void plan_steps(Planning& planning);

}  // namespace batchai::plan
