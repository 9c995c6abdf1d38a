// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/make.hpp"

#include <utility>

#include "plan/planning.hpp"

namespace batchai::plan {

Made make(const job::JobSpec& spec, const job::PositionTable& positions, const site::Site& site,
          const Submission& submission) {
    Planning planning{spec, positions, site, submission, Findings(positions), {}, {}, {}};
    planning.plan.identity = submission.identity;
    planning.plan.tool_type = job::tool_type(spec.toolkit);
    planning.plan.mpi = site.mpi;
    plan_allocation(planning);
    plan_directories(planning);
    plan_mounts(planning);
    plan_container(planning);
    plan_environment(planning);
    plan_steps(planning);

    Made made{std::nullopt, planning.findings.take(), {}};
    if (job::has_error(made.diagnostics)) return made;
    made.plan = std::move(planning.plan);
    made.mount_secrets = std::move(planning.mount_secrets);
    return made;
}

}  // namespace batchai::plan
