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
#include "plan/retry.hpp"
#include "run/again/watch_first_node.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/gpu_check.hpp"
#include "run/phases/link_check.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"
#include "slurm/client.hpp"
#include "slurm/node_addresses.hpp"

namespace batchai::run {

namespace {

// Slurm's controller may take so long to hear of a lost node and take it out of the job.
constexpr std::chrono::milliseconds settling{2000};
constexpr std::chrono::milliseconds between_looks_at_loss{250};

// While the ranks run, their output and the signals for the job wait for Slurm's answer.
constexpr std::chrono::seconds answer_while_ranks_run{3};
// For the clean-up of the nodes that the job gives back.
constexpr std::chrono::seconds clean_up_deadline{60};
// Between two starts. A signal for the job waits for Slurm's answer.
constexpr std::chrono::seconds answer_between_starts{10};
constexpr std::chrono::seconds between_looks{5};
// How long ranks must have run that "retry" starts again where they are for the second time.
constexpr std::chrono::minutes least_run{1};
constexpr int most_looks = 36;

// How long the ranks of the last start have run.
std::chrono::duration<double> ran_for(const record::Attempt& attempt) {
    const record::Phase& last = attempt.phases.back();
    return std::chrono::duration<double>(
        base::seconds_between(last.start, last.end.value_or(last.start)));
}

bool is_being_ended(const slurm::JobStatus& job) {
    return job.state == slurm::JobState::completing || slurm::is_final(job.state);
}

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
        .pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); },
        .addresses_of = slurm::addresses_of};
}

RankRestarts::RankRestarts(Context& context, Journal& journal, QueueAgain& again, SlurmCalls slurm)
    : context_(context), journal_(journal), again_(again), slurm_(std::move(slurm)) {
    const int nodes = context.plan.allocation.nodes;
    hosts_ = {.granted = context.granted.nodes,
              .place = context.place.nodes,
              .unfit = {},
              .wanted = {},
              .least = is_elastic() ? context.elastic->least_nodes : nodes,
              .most = nodes,
              .leaves_drained = is_elastic() && context.elastic->leaves_drained};
    context.leave_out = [this](const Nodes& bad) { return leave_out(bad); };
    context.why_not_without = [this](const std::string& node) { return why_not_without(node); };
    if (!is_elastic()) return;
    updates_.emplace(context, hosts_, [this] { return slurm_.look(answer_while_ranks_run); });
    context.host_updates = &*updates_;
}

RankRestarts::~RankRestarts() {
    context_.host_updates = nullptr;
    context_.leave_out = [](const Nodes&) { return false; };
    context_.why_not_without = [](const std::string&) { return std::string(); };
}

void RankRestarts::watch_first_node() {
    if (!context_.outlives_nodes() || (watch_ && watch_->runs())) return;
    const std::string& first = context_.granted.nodes.front();
    const Nodes others = without(context_.ready_nodes(), {first});
    if (others.empty()) return;
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    const record::JobFiles files = context_.files();
    const std::string log = files.watch_log().string();
    if (watch_)
        context_.log.master(
            "the step that watches the first node has ended and is started again; see " + log);
    const FirstNodeWatch watch{.job_id = context_.granted.job_id,
                               .id_in_commands = context_.granted.id_in_commands(),
                               .node = first,
                               .record_path = files.attempt(context_.attempt()).string(),
                               .log_path = files.slurm_log().string()};
    auto step = BackgroundStep::start(watch_arguments(watch, program, others.front()),
                                      environment_of_bare_nodes(), {.messages_path = log});
    node_of_watch_ = others.front();
    if (step)
        watch_ = std::move(*step);
    else
        context_.log.master("the first node is not watched, so its loss would end the job: " +
                            step.error().text());
}

bool RankRestarts::note_bad_nodes(const Ending& ending) {
    const record::Failure& failure = ending.failure;
    // At a restart, ranks that were killed may still hold a GPU.
    const bool of_gpu = failure.code == gpu_check_failed;
    const bool of_links = failure.code == link_check_failed && ending.of_node;
    const bool is_doubtful = of_gpu && context_.place.restarts > 0;
    const bool named_by_retry = context_.plan.retry && context_.plan.retry->exclude_failed_nodes &&
                                again_.may_run_again(ending);
    const bool of_dead_node = ending.by == record::EndedBy::node && ending.of_node;
    // The same ranks would only be slow there again.
    const bool of_slow_node = ending.by == record::EndedBy::slow && ending.of_node;
    // Any other node may be used on if no spare one can take its place.
    const bool is_replaced = !context_.place.spares.empty() && (ending.of_node || named_by_retry);
    if (!of_gpu && !of_links && !of_dead_node && !of_slow_node && !is_replaced) return false;
    bool suspects = false;
    for (const std::string& node : nodes_of(ending)) {
        if (is_doubtful && suspects_.insert(node).second) {
            suspects = true;
            continue;
        }
        // Without spare nodes, ranks that leave the first one have nothing to gain.
        if (node == hosts_.granted.front() && !has_spares()) continue;
        leave(node);
    }
    return suspects;
}

void RankRestarts::leave(const std::string& node) {
    hosts_.unfit.insert(node);
    if (!contains(context_.bad_nodes, node)) context_.bad_nodes.push_back(node);
}

bool RankRestarts::is_stopped() {
    if (!stopped_by_) stopped_by_ = context_.steps.stopped_by();
    return stopped_by_.has_value();
}

bool RankRestarts::has_lost_nodes(const SlurmsView& view) const {
    return survivors(context_.place.nodes, view) != context_.place.nodes;
}

base::Result<SlurmsView> RankRestarts::look(const Ending& ending) {
    if (ending.for_other_hosts) {
        for (int looks = 1;; ++looks) {
            auto view = slurm_.look(answer_between_starts);
            const bool enough =
                view && static_cast<int>(decide(hosts_, *view).nodes.size()) >= hosts_.least;
            if (enough || looks == most_looks || is_stopped()) return view;
            slurm_.pause(between_looks);
        }
    }
    const bool knows = ending.knows_cause || ending.of_node;
    bool lost = false;
    int silences = 0;
    for (auto waited = between_looks_at_loss;; waited += between_looks_at_loss) {
        auto view = slurm_.look(answer_between_starts);
        // A second look after the first loss, because several nodes may be lost together.
        const bool seen = std::exchange(lost, view && has_lost_nodes(*view));
        if (!view && ending.of_node && ++silences < most_looks && !is_stopped()) {
            slurm_.pause(between_looks);
            continue;
        }
        if (knows || seen || waited > settling || is_stopped()) return view;
        slurm_.pause(between_looks_at_loss);
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

Decision RankRestarts::settle(const SlurmsView& view) {
    Decision decision = decide(hosts_, view);
    hosts_.wanted.reset();
    const Nodes& leaving = decision.give_back;
    if (leaving.empty() || static_cast<int>(decision.nodes.size()) < hosts_.least || is_stopped())
        return decision;
    if (contains(leaving, node_of_watch_)) watch_.reset();
    // A node that cannot start tasks would hold up the clean-up of the others. A node that was
    // cleaned up has nothing of the job's preparation left, so no ranks may start there again.
    const Nodes reachable = survivors(leaving, view);
    hosts_.unfit.insert(leaving.begin(), leaving.end());
    if (!reachable.empty()) clean_up(reachable);
    if (is_stopped()) return decision;
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
    // It is among the unfit ones now, whether or not Slurm has taken it back.
    return now ? decide(hosts_, *now) : decision;
}

void RankRestarts::move_to(Decision next, int restarts) {
    context_.place =
        place_on(std::move(next.nodes), restarts, std::move(next.spares), slurm_.addresses_of);
    hosts_.place = context_.place.nodes;
    // Those that are kept for the ranks are kept on this host.
    if (hosts_.place.front() != hosts_.granted.front())
        context_.ports = {.job = base::ReservedPort::reserve(),
                          .ranks = base::ReservedPort::reserve()};
}

bool RankRestarts::leave_out(const Nodes& bad) {
    Decision left = divide(hosts_, without(context_.ready_nodes(), bad));
    if (!has_spares() || static_cast<int>(left.nodes.size()) < hosts_.least) return false;
    for (const std::string& node : bad)
        leave(node);
    move_to(std::move(left), context_.place.restarts);
    if (contains(bad, node_of_watch_)) watch_.reset();
    if (const auto written = write_host_file(context_); !written)
        context_.log.warn(written.error().text());
    return true;
}

std::string RankRestarts::why_not_without(const std::string& node) const {
    if (!context_.place.spares.empty()) return {};
    if (is_elastic()) {
        if (node == hosts_.granted.front())
            return "it is the first node, which the job cannot leave";
        if (static_cast<int>(context_.place.nodes.size()) <= hosts_.least)
            return "the job needs all of its nodes";
        if (failures_ < context_.elastic->restarts) return {};
        return fmt::format("the limit of {} restarts is reached", context_.elastic->restarts);
    }
    const auto& retry = context_.plan.retry;
    if (!retry || !plan::retries_on(*retry, "slow")) return "no spare node is free";
    return again_.retries() < retry->max ? std::string() : std::string("no retry is left");
}

bool RankRestarts::leave_out(const Ending& ending) {
    const Nodes bad = nodes_of(ending);
    if (context_.place.restarts > 0 || !ending.of_node || !leave_out(bad)) return false;
    context_.log.warn(
        fmt::format("the job goes on without {}: {}", listed(bad), sentence_of(ending)));
    return true;
}

void RankRestarts::refuse(const std::string& why) const {
    context_.log.master("the ranks are not started again: " + why);
    std::fprintf(stderr, "batchai: the ranks are not started again: %s\n", why.c_str());
}

bool RankRestarts::is_open(const Ending& ending) const {
    // What the one process of a custom toolkit has started may still run.
    if (context_.main_step()->kind != plan::StepKind::ranks) return false;
    const bool of_spares = has_spares() && (ending.may_start_again || ending.of_node);
    const bool of_elastic = is_elastic() && ending.may_start_again;
    return of_spares || of_elastic || (ending.may_start_again && again_.may_run_again(ending));
}

std::optional<RankRestarts::Reason> RankRestarts::elastic_reason(const Ending& ending,
                                                                 const SlurmsView* view) const {
    const record::Failure& failure = ending.failure;
    if (ending.for_other_hosts) return Reason{.text = failure.first_error_line, .of_hosts = true};
    // srun names a node that has failed. Such a node may be usable again already, so its state does
    // not tell it from one that somebody has taken from the job.
    const Nodes lost = view != nullptr && ending.by != record::EndedBy::node
                           ? taken(context_.place.nodes, *view)
                           : Nodes();
    if (lost.empty()) return std::nullopt;
    return Reason{.text = fmt::format("Slurm has taken {} from the job", listed(lost)),
                  .of_hosts = true};
}

std::optional<RankRestarts::Reason> RankRestarts::reason_of_spares(const SlurmsView& view,
                                                                   bool suspicion) const {
    if (suspicion) return Reason{.text = "the GPUs of the node are tried once more"};
    const Decision next = decide(hosts_, view);
    const Nodes leaving = without(context_.place.nodes, next.nodes);
    const Nodes coming = without(next.nodes, context_.place.nodes);
    if (static_cast<int>(next.nodes.size()) < hosts_.most || leaving.empty()) {
        // A spare node may be the one that has failed.
        const bool only_spare = leaving.empty() && next.spares != context_.place.spares;
        if (!only_spare) return std::nullopt;
        return Reason{.text = fmt::format("{} cannot be used and was to be spare",
                                          listed(without(context_.place.spares, next.spares)))};
    }
    return Reason{.text = fmt::format("{} in the place of {}", listed(coming), listed(leaving))};
}

std::optional<RankRestarts::Reason> RankRestarts::reason(const Ending& ending,
                                                         const SlurmsView* view, bool suspicion) {
    using Limit = Reason::Limit;
    const bool elastic = is_elastic() && ending.may_start_again;
    if (elastic) {
        if (auto found = elastic_reason(ending, view)) return found;
    }
    if (view != nullptr && has_spares() && (ending.of_node || has_lost_nodes(*view))) {
        if (auto found = reason_of_spares(*view, suspicion)) return found;
    }
    const std::string& line = ending.failure.first_error_line;
    const std::string why = line.empty() ? ending.failure.message : line;
    if (elastic) return Reason{.text = why, .limit = Limit::of_elastic};
    if (view == nullptr) return std::nullopt;
    const Nodes left = decide(hosts_, *view).nodes;
    if (static_cast<int>(left.size()) < hosts_.least) {
        if (has_spares() && left != context_.place.nodes)
            refuse(fmt::format("only {} nodes are left, but the job needs {}", left.size(),
                               hosts_.least));
        return std::nullopt;
    }
    // What fails at once may need some time until it is mended. A drained node has some fault.
    const bool at_once = has_retried_ && ran_for(journal_.attempt()) < least_run;
    if (at_once || has_drained(context_.place.nodes, *view) ||
        !again_.may_run_here(ending, view->job))
        return std::nullopt;
    return Reason{.text = why, .limit = Limit::of_retry};
}

std::optional<std::string> RankRestarts::counted(const Reason& reason, const Ending& ending) {
    switch (reason.limit) {
        case Reason::Limit::none:
            break;
        case Reason::Limit::of_elastic:
            return fmt::format(", restart {} of {}", ++failures_, context_.elastic->restarts);
        case Reason::Limit::of_retry: {
            const auto retries = again_.count_here(ending);
            if (!retries) return std::nullopt;
            return fmt::format(", retry {} of {}", *retries, context_.plan.retry->max);
        }
    }
    return std::string();
}

bool RankRestarts::start_again(Ending& ending) {
    const bool could_not_run = ending.by == record::EndedBy::start ||
                               (ending.by == record::EndedBy::storage && ending.of_node);
    if (!could_not_run) before_.reset();
    if (tries_again(ending)) return true;
    const auto before = std::exchange(before_, std::nullopt);
    if (!before) return false;
    refuse(sentence_of(ending));
    if (before->is_counted) again_.take_back_retry();
    ending = before->ending;
    return false;
}

bool RankRestarts::tries_again(Ending& ending) {
    if (!is_open(ending)) return false;
    const record::Failure failure = ending.failure;
    const auto stopped = [&] {
        if (!is_stopped()) return false;
        const StepResult word{.exit_code = 128 + *stopped_by_, .stopped_by = stopped_by_};
        if (auto outside = ended_from_outside(context_, word, failure.phase))
            ending = std::move(*outside);
        return true;
    };
    const auto refused = [&](const std::string& why) {
        refuse(why);
        return false;
    };
    // Once ranks have run, an earlier fault of a GPU has passed.
    if (failure.phase == Ranks::name) suspects_.clear();
    const auto view = look(ending);
    if (stopped()) return false;
    if (!view && !ending.for_other_hosts) return refused(view.error().text());
    if (!view) {
        hosts_.wanted.reset();
        context_.log.master("Slurm does not answer, so the ranks start again where they were: " +
                            view.error().text());
    }
    if (view && is_being_ended(view->job)) return false;
    if (view) {
        for (const std::string& node : lost(context_.place.nodes, *view))
            context_.node_failed(node, record::NodeFaultKind::lost);
    }
    if (view && has_spares()) {
        for (const std::string& node :
             without(context_.place.nodes, survivors(context_.place.nodes, *view)))
            leave(node);
    }
    const bool suspicion = note_bad_nodes(ending);
    const auto why = reason(ending, view ? &*view : nullptr, suspicion);
    if (!why) return false;
    if (why->limit == Reason::Limit::of_elastic && failures_ >= context_.elastic->restarts)
        return refused(fmt::format("the limit of {} restarts is reached ({})",
                                   context_.elastic->restarts, plan::elastic_restarts_variable));
    Decision next =
        view ? settle(*view)
             : Decision{
                   .nodes = context_.place.nodes, .spares = context_.place.spares, .give_back = {}};
    if (stopped()) return false;
    if (static_cast<int>(next.nodes.size()) < hosts_.least)
        return refused(fmt::format(
            "only {} nodes are left, but {} are needed{}", next.nodes.size(), hosts_.least,
            is_elastic() ? fmt::format(" ({})", plan::elastic_nodes_variable) : std::string()));
    const auto limit = counted(*why, ending);
    if (!limit) return false;
    move_to(std::move(next), context_.place.restarts + 1);
    const bool of_retry = why->limit == Reason::Limit::of_retry;
    has_retried_ = has_retried_ || of_retry;
    if (!is_elastic() && !before_) before_ = Before{.ending = ending, .is_counted = of_retry};
    // watch_first_node() starts another one.
    if (watch_ && !contains(context_.ready_nodes(), node_of_watch_)) {
        if (ending.by == record::EndedBy::node) watch_->abandon();
        watch_.reset();
    }
    if (auto written = write_host_file(context_); !written) return refused(written.error().text());
    record::Restart restart{.time = base::now(), .nodes = context_.place.nodes, .failure = failure};
    if (why->of_hosts)
        restart.failure = {.code = hosts_updated,
                           .message = hosts_updated_message,
                           .phase = failure.phase,
                           .first_error_line = why->text};
    journal_.restarted(std::move(restart));
    const std::string line =
        fmt::format("the ranks start again on {} of {} nodes{}: {}", context_.place.nodes.size(),
                    context_.granted.nodes.size(), *limit, why->text);
    context_.log.all_nodes(line);
    std::printf("batchai: %s\n", line.c_str());
    return true;
}

}  // namespace batchai::run
