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

// One run of make(): what it is given, and the plan as far as it is made. The parts below fill it
// in this order; each reports its own faults and leaves the others to theirs.
struct Planning {
    const job::JobSpec& spec;
    const job::PositionTable& positions;
    const site::Site& site;
    const Submission& submission;
    Findings findings;
    Scope scope;  // what strings may refer to, as far as it is known by now
    Plan plan;
    std::vector<Variable> mount_secrets;

    // Expands `text` and warns of names that nothing defines. `pointer` is its place.
    [[nodiscard]] std::string expand(std::string_view text, std::string_view pointer);
    // Whether `bytes` and a closing zero are more than Linux gives to a program in one piece, which
    // is then a fault at `pointer`.
    bool refuse_too_long(std::size_t bytes, std::string_view pointer);
};

void plan_allocation(Planning& planning);
// Node and host directories, and the variables that name them.
void plan_directories(Planning& planning);
void plan_mounts(Planning& planning);
void plan_container(Planning& planning);
// Inputs, outputs, logs and the whole environment; needs directories and mounts.
void plan_environment(Planning& planning);
// Needs the allocation and the environment.
void plan_steps(Planning& planning);

}  // namespace batchai::plan
