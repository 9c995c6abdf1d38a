// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/make.hpp"

#include <utility>

#include <fmt/format.h>

#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

void check_container(Planning& planning) {
    const auto& container = planning.spec.container_settings;
    if (!container) return;
    if (planning.submission.ignore_container) {
        planning.plan.notices.push_back(
            fmt::format("containerSettings are ignored: the job runs directly on the nodes, not in "
                        "{}",
                        container->image));
        return;
    }
    planning.findings.add(Finding::container_not_supported, "/properties/containerSettings",
                          "containers are not supported yet",
                          "--ignore-container runs the job directly on the nodes");
}

}  // namespace

Made make(const job::JobSpec& spec, const job::PositionTable& positions, const site::Site& site,
          const Submission& submission) {
    Planning planning{spec, positions, site, submission, Findings(positions), {}, {}};
    planning.plan.identity = submission.identity;
    planning.plan.tool_type = job::tool_type(spec.toolkit);
    plan_allocation(planning);
    plan_directories(planning);
    plan_mounts(planning);
    check_container(planning);
    plan_environment(planning);
    plan_steps(planning);

    Made made{std::nullopt, planning.findings.take()};
    if (!job::has_error(made.diagnostics)) made.plan = std::move(planning.plan);
    return made;
}

}  // namespace batchai::plan
