// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/elastic.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/timestamp.hpp"
#include "run/again/watch_first_node.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

// Gives Slurm's controller time to hear of a lost node and take it out of the job.
constexpr std::chrono::seconds settling{2};

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
    const auto jobs = TRY(client.jobs({job_id}));
    const auto job = jobs.find(job_id);
    if (job == jobs.end()) return base::fail(fmt::format("Slurm no longer knows job {}", job_id));
    return survivors(nodes, job->second, TRY(client.nodes()));
}

plan::Step shrunk(const plan::Step& step, std::size_t nodes) {
    plan::Step out = step;
    out.processes = std::min(step.processes, step.processes_per_node * static_cast<int>(nodes));
    return out;
}

void ElasticStarts::watch_first_node() {
    const auto& nodes = context_.place.nodes;
    if (!context_.elastic || nodes.size() < 2 || (watch_ && watch_->runs())) return;
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    const record::JobFiles files = context_.files();
    const std::string log = files.watch_log().string();
    if (watch_)
        context_.log.master(
            "the step that watches the first node has ended and is started again; see " + log);
    const FirstNodeWatch watch{.job_id = context_.granted.job_id,
                               .node = context_.granted.nodes.front(),
                               .record_path = files.attempt(context_.attempt()).string(),
                               .log_path = files.slurm_log().string()};
    auto step = BackgroundStep::start(watch_arguments(watch, program, nodes[1]),
                                      environment_of_bare_nodes(), {.messages_path = log});
    if (step)
        watch_ = std::move(*step);
    else
        context_.log.master("the first node is not watched, so its loss would end the job: " +
                            step.error().text());
}

bool ElasticStarts::start_again(const record::Failure& failure) {
    if (!context_.elastic || !context_.main_step()->pmix) return false;
    const auto refuse = [&](const std::string& why) {
        context_.log.master("the ranks are not started again: " + why);
        std::fprintf(stderr, "batchai: the ranks are not started again: %s\n", why.c_str());
        return false;
    };
    const plan::Elastic& elastic = *context_.elastic;
    const int restarts = context_.place.restarts;
    if (restarts >= elastic.restarts)
        return refuse(fmt::format("the limit of {} restarts is reached ({})", elastic.restarts,
                                  plan::elastic_restarts_variable));
    std::this_thread::sleep_for(settling);
    const auto& granted = context_.granted;
    auto left = ask_for_survivors(slurm::Client(), granted.job_id, granted.nodes);
    if (!left) return refuse(left.error().text());
    if (static_cast<int>(left->size()) < elastic.least_nodes)
        return refuse(fmt::format("only {} nodes are left, but {} are needed ({})", left->size(),
                                  elastic.least_nodes, plan::elastic_nodes_variable));
    context_.place = place_on(std::move(*left), restarts + 1);
    if (auto written = write_host_file(context_); !written) return refuse(written.error().text());
    const auto& nodes = context_.place.nodes;
    journal_.restarted({.time = base::now(), .nodes = nodes, .failure = failure});
    const std::string line =
        fmt::format("the ranks start again on {} of {} nodes, restart {} of {}: {}", nodes.size(),
                    granted.nodes.size(), restarts + 1, elastic.restarts,
                    failure.first_error_line.empty() ? failure.message : failure.first_error_line);
    context_.log.all_nodes(line);
    std::printf("batchai: %s\n", line.c_str());
    return true;
}

}  // namespace batchai::run
