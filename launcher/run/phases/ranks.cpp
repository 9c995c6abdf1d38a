// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ping.hpp"
#include "record/rank_logs.hpp"
#include "record/task_reports.hpp"
#include "run/again/host_updates.hpp"
#include "run/again/hosts.hpp"
#include "run/again/rank_losses.hpp"
#include "run/again/warning.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/dead_nodes.hpp"
#include "run/blame/outside.hpp"
#include "run/blame/slurm_words.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/task_outputs.hpp"
#include "run/srun/srun_arguments.hpp"
#include "run/tensorflow/tensorflow_job.hpp"
#include "run/watch/watcher.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

namespace {

// Meanwhile nobody reads what the ranks print.
constexpr std::chrono::seconds answer_about_daemons{3};

// Returns the name of a stream's file in the plan.
const std::string& name_of(const plan::Step& step, record::RankStream stream) {
    return stream == record::RankStream::output ? step.stdout_name : step.stderr_name;
}

// The files into which srun has the ranks print, on the ranks' own nodes. `rank` is as in JobFiles.
std::string file_of(const Context& context, record::RankStream stream, const std::string& rank) {
    return stream == record::RankStream::output ? context.rank_output_file(rank)
                                                : context.rank_error_file(rank);
}

// Gives each rank's streams a file of its own in the logs, besides the one that is named in the
// plan and that the ranks may share. `pieces` and `watcher` must outlive `outputs`.
base::Result<void> add_outputs(TaskOutputs& outputs, record::PieceWriter& pieces, Watcher& watcher,
                               const Context& context, const plan::Step& step) {
    const std::string start = context.start();
    TRY(context.logs.make_directory(record::rank_log_directory(start)));
    for (const record::RankStream stream : record::rank_streams) {
        std::vector<TaskFile> files;
        for (int i = 0; i < step.processes; ++i) {
            const std::string rank = std::to_string(i);
            files.push_back({.task = rank,
                             .path = file_of(context, stream, rank),
                             .own = record::rank_log(start, stream, rank)});
        }
        TRY(outputs.add(
            name_of(step, stream), files,
            [&pieces, stream](std::size_t rank, std::uint64_t at, std::size_t length) {
                pieces.add(static_cast<std::uint32_t>(rank), stream, at, length);
            },
            [&watcher, stream](std::size_t rank, std::string_view bytes) {
                watcher.saw(rank, stream, bytes);
            }));
    }
    return {};
}

// Notes where the ranks run. Without this record their files are there, but `job logs` cannot tell
// whose they are. It is written while the ranks start, which need not wait for the disk.
void note_places(const Context& context, const record::RankPlaces& places) {
    const auto written = record::write_rank_places(context.files(), context.start(), places);
    if (!written) std::fprintf(stderr, "batchai: warning: %s\n", written.error().text().c_str());
}

// In an allocation of salloc, `batchai run` may have run before, and the names of its files were
// the same. srun would append to what the ranks printed then, which would be copied again, and a
// report of then would be taken for one of these ranks. Pieces belong to srun's files unless the
// logs last longer than the job.
void forget_earlier_run(const Context& context, const plan::Step& step) {
    for (int rank = 0; rank < step.processes; ++rank)
        context.remove_rank_files(std::to_string(rank));
    record::forget_reports(context.files().refusals(context.start()));
    record::forget_reports(context.files().rank_failures(context.start()));
    std::error_code ignored;
    if (context.plan.directories.stdouterr_host.empty())
        std::filesystem::remove(context.files().rank_pieces(context.start()), ignored);
}

// Keeps what the ranks have printed once in addition to the merged files: as files of the logs, or
// as those that srun has written if the logs disappear with the job.
void remove_copied_output(const Context& context, const plan::Step& step,
                          const TaskOutputs& outputs) {
    if (context.plan.directories.stdouterr_host.empty())
        return outputs.restore_truncated(context.log);
    for (int rank = 0; rank < step.processes; ++rank)
        context.remove_rank_files(std::to_string(rank));
}

// Tells the ranks of a job with a checkpoint that they will be ended.
class RankWarner {
  public:
    explicit RankWarner(Context& context)
        : context_(context), warning_(context.plan.checkpoint, Warning::Clock::now()) {}

    // Returns the signal to pass on to srun.
    std::optional<int> pass_on(int signal) {
        switch (warning_.answer(signal, Warning::Clock::now())) {
            case Warning::Answer::nothing:
                kept_stop_ = kept_stop_ || signal == SIGTERM;
                return std::nullopt;
            case Warning::Answer::pass_on:
                // Slurm lets the ranks live for KillWait when it ends the job, and srun does not.
                if (may_be_slurms(signal)) return std::nullopt;
                has_stopped_ = has_stopped_ || signal == SIGTERM || signal == SIGINT;
                return signal;
            case Warning::Answer::warn:
                has_stopped_ = has_stopped_ || signal == SIGTERM;
                break;
        }
        // A second TERM would be taken for somebody's impatience.
        if (signal == context_.plan.checkpoint->signal && may_be_slurms(signal))
            warning_.given();
        else
            warn();
        return std::nullopt;
    }
    // Must be called now and then while the ranks run.
    void poll() {
        if (warning_.is_due(Warning::Clock::now())) warn();
    }
    [[nodiscard]] bool has_warned() const { return warning_.has_been_given(); }
    // Returns whether the ranks have ended by themselves although somebody has sent us TERM, from
    // which they were kept because they knew already. Slurm would have sent it to them as well.
    [[nodiscard]] bool stop_was_kept() {
        return kept_stop_ && !has_stopped_ && !context_.outside.why_job_ends();
    }

  private:
    // Returns whether Slurm has sent TERM to the ranks as well, and will kill them.
    bool may_be_slurms(int signal) {
        return signal == SIGTERM && context_.plan.checkpoint && context_.outside.why_job_ends();
    }
    void warn() {
        const auto sent = context_.steps.signal_tasks(context_.plan.checkpoint->signal);
        if (sent) {
            warning_.given();
            context_.log.say(
                "the job will be ended soon: the ranks get the signal of \"checkpoint\"");
        } else {
            warning_.postpone(Warning::Clock::now());
            context_.log.say("the ranks do not get the signal of \"checkpoint\" yet: " +
                             sent.error().text());
        }
    }

    Context& context_;
    Warning warning_;
    bool kept_stop_ = false;
    bool has_stopped_ = false;  // the ranks have had to do with a TERM or INT
};

// Returns the end of ranks that have stopped because they were warned.
Ending ended_after_warning(int exit_code) {
    const record::EndWords words = record::words_of(record::EndedBy::time_limit);
    return {.failure = {.code = std::string(words.code),
                        .message = std::string(words.message),
                        .phase = std::string(Ranks::name),
                        .exit_code = exit_code},
            .by = record::EndedBy::time_limit,
            .exit_code = exit_code};
}

ExpectedStarts starts_of_ranks(const Context& context, const record::RankPlaces& places,
                               const TaskWords& words) {
    return {.files = context.files(),
            .step = context.start(),
            .nodes = static_cast<int>(context.place.nodes.size()),
            .node_of_task = places.nodes,
            .error_files = words.error_files};
}

// The one process of a custom toolkit runs on the first node of the place.
std::vector<std::string> nodes_of(const Context& context, const plan::Step& step) {
    auto nodes = context.step_nodes();
    if (step.kind == plan::StepKind::master && !nodes.empty()) nodes.resize(1);
    return nodes;
}

TasksOfStep ranks_of(const Context& context) {
    const bool one_process = context.main_step()->kind == plan::StepKind::master;
    return {.task = one_process ? "the job's command" : "rank", .on_each_node = one_process};
}

// What is known once the step of the ranks has ended.
struct StepEnd {
    base::Result<StepResult> result;
    int exit_code = 0;
    std::string said;  // by srun
};

// The ranks have ended with a commit, whatever their exit codes are.
Ending for_other_hosts(const HostUpdates& updates) {
    return {.failure = {.code = hosts_updated,
                        .message = hosts_updated_message,
                        .phase = std::string(Ranks::name),
                        .first_error_line = updates.told()},
            .by = record::EndedBy::node,
            .may_start_again = true,
            .for_other_hosts = true};
}

// srun may have given up a node before it was known that it is dead.
void look_for_dead_nodes(Context& context, DeadNodes& dead, StepResult& result) {
    if (result.exit_code == 0 || result.stopped_by || result.ended_on_request) return;
    if (!result.dead_nodes.empty()) return;
    result.dead_nodes = dead.wait(result.messages, [&] {
        result.stopped_by = context.steps.stopped_by();
        return !result.stopped_by;
    });
}

// Looks for losses. Returns whether the step has to end for one, and srun can still do that.
bool is_not_outlived(RankLosses& losses, DeadNodes& dead, std::string_view said,
                     const std::vector<std::string>& dead_nodes) {
    const std::size_t before = losses.count();
    losses.poll(said, dead_nodes);
    const auto gone = losses.dead_nodes();
    if (losses.count() != before) dead.go_on_without({gone.begin(), gone.end()});
    return losses.must_end() && dead_nodes.empty();
}

// Returns the nodes that are dead, or that srun said had failed.
std::vector<std::string> lost_nodes(const StepEnd& end) {
    return end.result && !end.result->dead_nodes.empty() ? end.result->dead_nodes
                                                         : failed_nodes(end.said);
}

// The rank that ended first may be one that has only noticed the loss of a node.
void name_lost_node(record::Failure& failure, const std::vector<std::string>& lost) {
    if (lost.empty() || std::find(lost.begin(), lost.end(), failure.node) != lost.end()) return;
    failure.node = lost.front();
    failure.rank.reset();
    failure.signal.reset();
}

PhaseEnd judged(Context& context, const StepEnd& end, const TaskWords& words,
                const TensorFlowJob& tensorflow, bool warned, const std::optional<Ending>& hang) {
    constexpr std::string_view name = Ranks::name;
    const auto& [result, step_code, said] = end;
    std::optional<Ending> ending;
    if (result && step_code != 0) ending = ended_from_outside(context, *result, name);
    if (!ending)
        ending =
            node_failure(context, name, step_code == 0, result ? result->stopped_by : std::nullopt);
    const bool is_dead = result && !result->dead_nodes.empty();
    if (!ending && step_code != 0 && !is_dead) ending = hang;
    if (!ending && context.host_updates != nullptr && context.host_updates->ranks_have_left())
        ending = for_other_hosts(*context.host_updates);
    if (ending || step_code == 0) return {.exit_code = step_code, .ending = std::move(ending)};

    if (auto of_start = result ? start_failure(*result, ranks_of(context), name) : std::nullopt) {
        of_start->may_start_again = true;
        return {.exit_code = step_code, .ending = std::move(of_start)};
    }
    record::Failure failure{.phase = std::string(name)};
    const Blame blamed = blame(failure, step_code, said, words);
    auto by = blamed.for_memory ? record::EndedBy::memory
                                : end_of_step(said).value_or(record::EndedBy::program);
    int exit_code = blamed.exit_code;
    if (warned && by == record::EndedBy::program &&
        ended_as_told(bad_ends(said), exit_code, *context.plan.checkpoint))
        return {.exit_code = step_code, .ending = ended_after_warning(exit_code)};
    if (auto of_servers = tensorflow.failure(failure, name)) {
        failure = std::move(of_servers->failure);
        by = of_servers->by;
        exit_code = failure.exit_code.value_or(exit_code);
    }
    const std::vector<std::string> lost = lost_nodes(end);
    if (!lost.empty()) by = record::EndedBy::node;
    name_lost_node(failure, lost);
    const std::string failed_node = failure.node;
    if (result) name_full_disk(failure, result->no_room);
    const record::EndWords words_of_end = record::words_of(by);
    failure.code = words_of_end.code;
    failure.message = words_of_end.message;
    if (!blamed.evidence.empty()) context.log.master(blamed.evidence);
    Ending failed{.failure = std::move(failure),
                  .by = by,
                  .exit_code = exit_code,
                  .more_bad_nodes = without(lost, {failed_node}),
                  .may_start_again = true,
                  .of_node = !lost.empty(),
                  .knows_cause = blamed.knows_cause || blamed.for_memory};
    std::fprintf(stderr, "batchai: %s\n", sentence_of(failed).c_str());
    return {.exit_code = step_code, .ending = std::move(failed)};
}

}  // namespace

PhaseEnd Ranks::run(Context& context) {
    plan::Step step = context.main_step_here();
    std::printf("batchai: %d ranks start; output in %s\n", step.processes,
                context.logs.path().c_str());
    std::fflush(stdout);
    context.log.all_nodes(fmt::format("the job's command starts, {} processes", step.processes));
    TaskWords words{.job_id = context.granted.job_id,
                    .error_files = {},
                    .refusals = context.files().refusals(context.start()),
                    .rank_failures = context.files().rank_failures(context.start()),
                    .outlive_losses = context.keeps_processes()};
    forget_earlier_run(context, step);
    record::PieceWriter pieces(context.files().rank_pieces(context.start()).string());
    Watcher watcher(context, step);
    TaskOutputs outputs(context.logs);
    if (auto added = add_outputs(outputs, pieces, watcher, context, step); !added)
        return ends_with({.failure = {.code = "JobFailed",
                                      .message = added.error().text(),
                                      .phase = std::string(name),
                                      .node = context.place.nodes.front()}});
    for (int rank = 0; rank < step.processes; ++rank)
        words.error_files.push_back(context.rank_error_file(std::to_string(rank)));
    const StepFiles files{.standard_output = context.rank_output_file("%t"),
                          .standard_error = context.rank_error_file("%t")};
    expect_node_failures(context);
    if (context.host_updates != nullptr) context.host_updates->begin();
    base::Environment environment = step_environment(context, step.kind);
    for (std::string& variable : report_variables(context.files(), context.start()))
        environment.push_back(std::move(variable));
    for (std::string& variable : usage_variables(context.start()))
        environment.push_back(std::move(variable));
    environment.push_back(starts_variable(context.start()));
    const record::RankPlaces places = context.rank_places();
    TensorFlowJob tensorflow(context);
    const auto started = tensorflow.start(step, environment);
    bool noted = false;
    RankWarner warner(context);
    const bool keeps_job = context.outlives_nodes();
    DeadNodes dead(
        context.place.nodes, context.place.spares, from_environment("SLURMD_NODENAME").value_or(""),
        [](const std::vector<std::string>& nodes) {
            return slurm::Client(answer_about_daemons).daemons(nodes);
        },
        [pinger = std::make_shared<base::Pinger>()](const std::vector<std::string>& addresses) {
            return pinger->ask(addresses);
        });
    RankLosses losses(context, places, words, [&](const std::vector<std::string>& nodes) {
        return dead.silent_now(nodes);
    });
    const auto dead_nodes = [&](std::string_view said) {
        return keeps_job ? dead.poll(losses.without_lost(said),
                                     watcher.stands_still() || losses.are_doubtful())
                         : std::vector<std::string>();
    };
    StepEnd end{
        .result =
            started ? context.steps.run(
                          {.arguments = srun_arguments(
                               context.plan, step, context.mpi(), files, nodes_of(context, step),
                               losses.are_outlived() ? AfterLoss::goes_on : AfterLoss::ends),
                           .environment = srun_environment(context.plan, files, environment),
                           .tick =
                               [&] {
                                   if (!std::exchange(noted, true)) note_places(context, places);
                                   outputs.poll();
                                   if (context.host_updates != nullptr)
                                       context.host_updates->poll();
                                   pieces.flush();
                                   warner.poll();
                                   watcher.poll(!warner.has_warned());
                               },
                           .enough = [&] { return watcher.ending() || tensorflow.poll(); },
                           .has_failed =
                               [&](std::string_view said) {
                                   return losses.are_outlived() &&
                                          is_not_outlived(losses, dead, said, dead_nodes(said));
                               },
                           .dead_nodes =
                               [&](std::string_view said) {
                                   if (losses.others_have_ended()) return losses.dead_nodes();
                                   const bool may_wait =
                                       losses.are_outlived() && !losses.must_end();
                                   return may_wait ? std::vector<std::string>() : dead_nodes(said);
                               },
                           .pass_on = [&](int signal) { return warner.pass_on(signal); },
                           .starts = starts_of_ranks(context, places, words)})
                    : tl::unexpected(started.error())};
    if (end.result && end.result->stopped_by && warner.stop_was_kept())
        end.result->stopped_by.reset();
    watcher.finish(end.result && end.result->stopped_by);
    tensorflow.end(end.result);
    if (end.result) losses.leave_out_lost(*end.result);
    if (keeps_job && end.result) look_for_dead_nodes(context, dead, *end.result);
    // Also if the dead node is back by now: it does not end what it has forgotten.
    if ((end.result && !end.result->dead_nodes.empty()) || !losses.dead_nodes().empty())
        context.steps.leave_step();
    if (!noted) note_places(context, places);
    bool copied = outputs.finish("the ranks' output", context.log);
    pieces.flush();
    context.log.collect_traces();
    if (!end.result || !end.result->not_started.empty() || !tensorflow.has_succeeded(*end.result)) {
        end.exit_code = end.result ? end.result->exit_code : 1;
        end.said = end.result ? end.result->messages : end.result.error().text() + "\n";
    }
    // What srun says about the step has its place beside what the first rank says. It is only noise
    // if the ranks have ended on purpose.
    if (context.host_updates == nullptr || !context.host_updates->ranks_have_left())
        context.logs.append_text(file_of_task(step.stderr_name, "0"), end.said);
    context.log.all_nodes(
        fmt::format("the job's command has ended with exit code {}", end.exit_code));
    if (end.result && end.exit_code == 0)
        log_unconfirmed_starts(context, *end.result, ranks_of(context));
    PhaseEnd out = judged(context, end, words, tensorflow, warner.has_warned(), watcher.ending());
    // The ranks of a new start would not be warned again.
    if (warner.has_warned() && out.ending && !out.ending->for_other_hosts)
        out.ending->may_start_again = out.ending->of_node = false;
    // The search for the culprit reads these files.
    copied = copied && outputs.finish_again();
    pieces.flush();
    if (copied) remove_copied_output(context, step, outputs);
    tensorflow.remove_copied_output();
    return out;
}

}  // namespace batchai::run
