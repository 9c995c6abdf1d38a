// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/allocation.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "slurm/hostlist.hpp"

namespace batchai::run {

std::optional<std::string> from_environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

base::Result<Granted> granted(const Lookup& environment, const plan::Plan& plan) {
    const auto job_id = environment("SLURM_JOB_ID");
    const auto node_list = environment("SLURM_JOB_NODELIST");
    if (!job_id || !node_list)
        return base::fail("this is not inside a Slurm allocation", "batchai run",
                          "use it in a script submitted with sbatch, or inside salloc",
                          base::ExitCode::usage);
    auto nodes = slurm::expand_hostlist(*node_list);
    if (!nodes) return tl::unexpected<base::Error>(nodes.error());
    if (static_cast<int>(nodes->size()) != plan.allocation.nodes)
        return base::fail(fmt::format("the allocation has {} nodes, the job file asks for {}",
                                      nodes->size(), plan.allocation.nodes),
                          "batchai run", "leave --nodes out, or make nodeCount the same",
                          base::ExitCode::usage);
    Granted out{*job_id, 0, std::move(*nodes)};
    const auto restarts = environment("SLURM_RESTART_COUNT");
    if (restarts) out.restart = std::atoi(restarts->c_str());
    return out;
}

}  // namespace batchai::run
