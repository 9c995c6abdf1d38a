// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/rank_restarts.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/timestamp.hpp"
#include "run/again/watch_first_node.hpp"
#include "run/blame/outside.hpp"
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
// Between two starts. A signal for the job waits for Slurm's answer.
constexpr std::chrono::seconds answer_between_starts{10};
constexpr std::chrono::seconds between_looks{5};
constexpr int most_looks = 36;

std::string listed(const Nodes& nodes) {
    return fmt::format("{}", fmt::join(nodes, ", "));
}

}  // namespace

SlurmCalls slurm_calls(const slurm::ThisJob& granted) {
    return {
        .look =
            [job_id = granted.job_id, nodes = granted.nodes](std::chrono::seconds deadline) {
                return ask_slurm(slurm::Client(deadline), job_id, nodes);
            },
        .keep_nodes = [id = granted.id_in_commands()](const Nodes& nodes) -> base::Result<void> {
            return slurm::Client(answer_between_starts)
                .keep_nodes(TRY(slurm::JobId::parse(id)), nodes);
        },
        .pause = [](std::chrono::seconds time) { std::this_thread::sleep_for(time); }};
}

RankRestarts::RankRestarts(Context& context, Journal& journal, SlurmCalls slurm)
    : context_(context), journal_(journal), slurm_(std::move(slurm)) {
    if (!context.elastic) return;
    hosts_ = {.granted = context.granted.nodes,
              .place = context.place.nodes,
              .unfit = {},
              .wanted = {},
              .least = context.elastic->least_nodes,
              .leaves_drained = context.elastic->leaves_drained};
    updates_.emplace(context, hosts_, [this] { return slurm_.look(answer_while_ranks_run); });
    context.host_updates = &*updates_;
}

RankRestarts::~RankRestarts() {
    context_.host_updates = nullptr;
}

void RankRestarts::watch_first_node() {
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
                               .id_in_commands = context_.granted.id_in_commands(),
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

void RankRestarts::note_bad_gpu(const record::Failure& failure) {
    if (failure.code != gpu_check_failed) return;
    const bool is_first = failure.node == context_.granted.nodes.front();
    // At a restart, ranks that were killed may still hold a GPU.
    const bool is_sure = context_.place.restarts == 0 || !suspects_.insert(failure.node).second;
    if (is_sure && !is_first) hosts_.unfit.insert(failure.node);
}

bool RankRestarts::is_stopped() {
    if (!stopped_by_) stopped_by_ = context_.steps.stopped_by();
    return stopped_by_.has_value();
}

base::Result<SlurmsView> RankRestarts::look(bool patient) {
    for (int looks = 1;; ++looks) {
        auto view = slurm_.look(answer_between_starts);
        const bool enough =
            view && static_cast<int>(decide(hosts_, *view).nodes.size()) >= hosts_.least;
        if (enough || !patient || looks == most_looks || is_stopped()) return view;
        slurm_.pause(between_looks);
    }
}

void RankRestarts::clean_up(const Nodes& nodes) {
    // Slurm runs no epilog on these nodes.
    const auto cleaned =
        context_.steps.run({.arguments = clean_up_arguments(program_on_nodes("batchai-node"),
                                                            context_.granted.job_id, nodes),
                            .environment = environment_of_bare_nodes(),
                            .deadline = clean_up_deadline});
    if (cleaned && cleaned->stopped_by) stopped_by_ = cleaned->stopped_by;
    if (!cleaned || cleaned->exit_code != 0)
        context_.log.master(fmt::format("what the job has left on {} is not removed: {}",
                                        listed(nodes),
                                        cleaned ? cleaned->messages : cleaned.error().text()));
}

Nodes RankRestarts::settle(const SlurmsView& view) {
    const Decision decision = decide(hosts_, view);
    hosts_.wanted.reset();
    const Nodes& leaving = decision.give_back;
    if (leaving.empty() || static_cast<int>(decision.nodes.size()) < hosts_.least || is_stopped())
        return decision.nodes;
    if (contains(leaving, node_of_watch_)) watch_.reset();
    // A node that cannot start tasks would hold up the clean-up of the others. A node that was
    // cleaned up has nothing of the job's preparation left, so no ranks may start there again.
    const Nodes reachable = survivors(leaving, view);
    hosts_.unfit.insert(leaving.begin(), leaving.end());
    if (!reachable.empty()) clean_up(reachable);
    if (is_stopped()) return decision.nodes;
    // Slurm may have taken nodes from the job during the clean-up.
    auto now = slurm_.look(answer_between_starts);
    base::Result<void> given =
        now ? slurm_.keep_nodes(without(now->job.nodes, leaving)) : tl::unexpected(now.error());
    if (!given) now = slurm_.look(answer_between_starts);
    const bool gone = now && std::none_of(leaving.begin(), leaving.end(), [&](const auto& name) {
                          return contains(now->job.nodes, name);
                      });
    // A call that has timed out may have been carried out.
    if (given || gone)
        context_.log.all_nodes(fmt::format("the job has given back to Slurm: {}", listed(leaving)));
    else
        context_.log.master(fmt::format("{} cannot be given back to Slurm: {}", listed(leaving),
                                        given.error().text()));
    return now ? without(decide(hosts_, *now).nodes, leaving) : decision.nodes;
}

bool RankRestarts::start_again(Ending& ending) {
    if (!context_.elastic || !context_.main_step()->pmix) return false;
    const record::Failure failure = ending.failure;
    const auto refuse = [&](const std::string& why) {
        context_.log.master("the ranks are not started again: " + why);
        std::fprintf(stderr, "batchai: the ranks are not started again: %s\n", why.c_str());
        return false;
    };
    const auto stopped = [&] {
        if (!is_stopped()) return false;
        const StepResult word{.exit_code = 128 + *stopped_by_, .stopped_by = stopped_by_};
        if (auto outside = ended_from_outside(context_, word, failure.phase))
            ending = std::move(*outside);
        return true;
    };
    // Once ranks have run, an earlier fault of a GPU has passed.
    if (failure.phase == Ranks::name) suspects_.clear();
    if (!ending.for_other_hosts) slurm_.pause(settling);
    const auto view = look(ending.for_other_hosts);
    if (stopped()) return false;
    if (!view && !ending.for_other_hosts) return refuse(view.error().text());
    if (!view)
        context_.log.master("Slurm does not answer, so the ranks start again where they were: " +
                            view.error().text());
    // srun names a node that has failed. Such a node may be usable again already, so its state does
    // not tell it from one that somebody has taken from the job.
    const bool node_failed = ending.by == record::EndedBy::node && !ending.for_other_hosts;
    const Nodes lost = view && !node_failed ? taken(context_.place.nodes, *view) : Nodes();
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
    if (!view) hosts_.wanted.reset();
    Nodes nodes = view ? settle(*view) : context_.place.nodes;
    if (stopped()) return false;
    if (static_cast<int>(nodes.size()) < elastic.least_nodes)
        return refuse(fmt::format("only {} nodes are left, but {} are needed ({})", nodes.size(),
                                  elastic.least_nodes, plan::elastic_nodes_variable));
    context_.place = place_on(std::move(nodes), context_.place.restarts + 1);
    // watch_first_node() starts another one.
    if (!contains(context_.place.nodes, node_of_watch_)) watch_.reset();
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
