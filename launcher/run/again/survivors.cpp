// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/survivors.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace batchai::run {

namespace {

bool starts_tasks(const slurm::NodeStatus& node) {
    using Flag = slurm::NodeFlag;
    if (node.state == slurm::NodeBaseState::down || node.state == slurm::NodeBaseState::error)
        return false;
    const auto stopped = {Flag::not_responding, Flag::fail, Flag::powered_down, Flag::powering_down,
                          Flag::invalid_registration};
    return std::none_of(stopped.begin(), stopped.end(), [&](Flag flag) { return node.has(flag); });
}

}  // namespace

std::vector<std::string> survivors(const std::vector<std::string>& nodes,
                                   const slurm::JobStatus& job,
                                   const std::vector<slurm::NodeStatus>& statuses) {
    const auto is_fine = [&](const std::string& name) {
        if (std::find(job.nodes.begin(), job.nodes.end(), name) == job.nodes.end()) return false;
        const auto found = std::find_if(statuses.begin(), statuses.end(),
                                        [&](const auto& node) { return node.name == name; });
        return found != statuses.end() && starts_tasks(*found);
    };
    std::vector<std::string> out;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(out), is_fine);
    return out;
}

base::Result<std::vector<std::string>> ask_for_survivors(const slurm::Client& client,
                                                         const std::string& job_id,
                                                         const std::vector<std::string>& nodes) {
    const auto jobs = client.jobs({job_id});
    if (!jobs) return tl::unexpected<base::Error>(jobs.error());
    const auto job = jobs->find(job_id);
    if (job == jobs->end())
        return base::fail(fmt::format("Slurm does not know job {} any more", job_id));
    const auto statuses = client.nodes();
    if (!statuses) return tl::unexpected<base::Error>(statuses.error());
    return survivors(nodes, job->second, *statuses);
}

plan::Step shrunk(const plan::Step& step, std::size_t nodes) {
    plan::Step out = step;
    out.processes = std::min(step.processes, step.processes_per_node * static_cast<int>(nodes));
    return out;
}

}  // namespace batchai::run
