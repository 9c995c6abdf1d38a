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
#include <fmt/ranges.h>

#include "base/process.hpp"
#include "base/timestamp.hpp"
#include "run/again/watch_first_node.hpp"
#include "run/phases/gpu_check.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

namespace {

// Gives Slurm's controller time to hear of a lost node and take it out of the job.
constexpr std::chrono::seconds settling{2};

// While the ranks run, their output and the signals for the job wait for Slurm's answer.
constexpr std::chrono::seconds answer_while_ranks_run{3};
// For the clean-up of the nodes that the job gives back.
constexpr std::chrono::seconds clean_up_deadline{60};

std::string listed(const Nodes& nodes) {
    return fmt::format("{}", fmt::join(nodes, ", "));
}

}  // namespace

ElasticStarts::ElasticStarts(Context& context, Journal& journal)
    : context_(context), journal_(journal) {
    if (!context.elastic) return;
    updates_.emplace(context, context.elastic->least_nodes, context.elastic->leaves_drained,
                     [job_id = context.granted.job_id] {
                         return ask_slurm(slurm::Client(answer_while_ranks_run), job_id);
                     });
    context.host_updates = &*updates_;
}

ElasticStarts::~ElasticStarts() {
    context_.host_updates = nullptr;
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
    node_of_watch_ = nodes[1];
    if (step)
        watch_ = std::move(*step);
    else
        context_.log.master("the first node is not watched, so its loss would end the job: " +
                            step.error().text());
}

void ElasticStarts::note_bad_gpu(const record::Failure& failure) {
    if (failure.code != gpu_check_failed) return;
    const bool is_first = failure.node == context_.granted.nodes.front();
    // At a restart, ranks that were killed may still hold a GPU.
    const bool is_sure = context_.place.restarts == 0 || !suspects_.insert(failure.node).second;
    if (is_sure && !is_first) updates_->hosts().unfit.insert(failure.node);
}

base::Result<void> ElasticStarts::give_back(const Nodes& nodes, const SlurmsView& view) {
    if (std::find(nodes.begin(), nodes.end(), node_of_watch_) != nodes.end()) watch_.reset();
    const std::string& job_id = context_.granted.job_id;
    // Slurm runs no epilog on these nodes. A signal for the job that comes now waits for the next
    // step.
    base::RunOptions options;
    options.environment = environment_of_bare_nodes();
    options.deadline = clean_up_deadline;
    const auto cleaned =
        base::run(clean_up_arguments(program_on_nodes("batchai-node"), job_id, nodes), options);
    if (!cleaned || cleaned->exit_code != 0)
        context_.log.master(
            fmt::format("what the job has left on {} is not removed: {}", listed(nodes),
                        cleaned ? cleaned->standard_error : cleaned.error().text()));
    Nodes kept = view.job.nodes;
    std::erase_if(kept, [&](const std::string& name) {
        return std::find(nodes.begin(), nodes.end(), name) != nodes.end();
    });
    return slurm::Client().keep_nodes(job_id, kept);
}

Nodes ElasticStarts::settle(const SlurmsView& view) {
    Hosts& hosts = updates_->hosts();
    Decision decision = decide(hosts, view);
    hosts.wanted.reset();
    if (decision.give_back.empty() || static_cast<int>(decision.nodes.size()) < hosts.least)
        return decision.nodes;
    const std::string names = listed(decision.give_back);
    const auto given = give_back(decision.give_back, view);
    if (given) {
        context_.log.all_nodes(fmt::format("the job has given back to Slurm: {}", names));
        return decision.nodes;
    }
    context_.log.master(
        fmt::format("{} cannot be given back to Slurm: {}", names, given.error().text()));
    return decide(hosts, view).nodes;
}

bool ElasticStarts::start_again(const Ending& ending) {
    if (!context_.elastic || !context_.main_step()->pmix) return false;
    const record::Failure& failure = ending.failure;
    const auto refuse = [&](const std::string& why) {
        context_.log.master("the ranks are not started again: " + why);
        std::fprintf(stderr, "batchai: the ranks are not started again: %s\n", why.c_str());
        return false;
    };
    if (!ending.for_other_hosts) std::this_thread::sleep_for(settling);
    const auto view = ask_slurm(slurm::Client(), context_.granted.job_id);
    if (!view) return refuse(view.error().text());
    // srun names a node that has failed. Such a node may be usable again already, so its state does
    // not tell it from one that somebody has taken from the job.
    const bool node_failed = ending.by == record::EndedBy::node;
    const Nodes lost = node_failed ? Nodes() : taken(context_.place.nodes, *view);
    const std::string why_hosts =
        ending.for_other_hosts ? failure.first_error_line
        : lost.empty()         ? std::string()
                               : fmt::format("Slurm has taken {} from the job", listed(lost));
    const plan::Elastic& elastic = *context_.elastic;
    if (why_hosts.empty()) {
        if (failures_ >= elastic.restarts)
            return refuse(fmt::format("the limit of {} restarts is reached ({})", elastic.restarts,
                                      plan::elastic_restarts_variable));
        note_bad_gpu(failure);
    }
    Nodes nodes = settle(*view);
    if (static_cast<int>(nodes.size()) < elastic.least_nodes)
        return refuse(fmt::format("only {} nodes are left, but {} are needed ({})", nodes.size(),
                                  elastic.least_nodes, plan::elastic_nodes_variable));
    context_.place = place_on(std::move(nodes), context_.place.restarts + 1);
    if (auto written = write_host_file(context_); !written) return refuse(written.error().text());
    record::Restart restart{.time = base::now(), .nodes = context_.place.nodes, .failure = failure};
    std::string why = failure.first_error_line.empty() ? failure.message : failure.first_error_line;
    std::string counted;
    if (why_hosts.empty()) {
        counted = fmt::format(", restart {} of {}", ++failures_, elastic.restarts);
    } else {
        why = why_hosts;
        restart.failure = {.code = hosts_updated,
                           .message = hosts_updated_message,
                           .phase = failure.phase,
                           .first_error_line = why_hosts};
    }
    journal_.restarted(std::move(restart));
    const std::string line =
        fmt::format("the ranks start again on {} of {} nodes{}: {}", context_.place.nodes.size(),
                    context_.granted.nodes.size(), counted, why);
    context_.log.all_nodes(line);
    std::printf("batchai: %s\n", line.c_str());
    return true;
}

}  // namespace batchai::run
