// SPDX-License-Identifier: GPL-2.0-or-later
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "record/rank_logs.hpp"
#include "record/task_reports.hpp"
#include "run/again/host_updates.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/task_outputs.hpp"
#include "run/srun/srun_arguments.hpp"
#include "run/tensorflow/tensorflow_job.hpp"

namespace batchai::run {

namespace {

// Returns ": rank 1 on n2: KeyError: 'a'", or less if less is known.
std::string where_and_why(const record::Failure& failure) {
    if (failure.rank)
        return fmt::format(": rank {} on {}: {}", *failure.rank, failure.node,
                           failure.first_error_line);
    return failure.first_error_line.empty() ? "" : ": " + failure.first_error_line;
}

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
// plan and that the ranks may share. `pieces` must outlive `outputs`.
base::Result<void> add_outputs(TaskOutputs& outputs, record::PieceWriter& pieces,
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
        TRY(outputs.add(name_of(step, stream), files,
                        [&pieces, stream](std::size_t rank, std::uint64_t at, std::size_t length) {
                            pieces.add(static_cast<std::uint32_t>(rank), stream, at, length);
                        }));
    }
    return {};
}

// Notes where the ranks run. Without this record their files are there, but `job logs` cannot tell
// whose they are. It is written while the ranks start, which need not wait for the disk.
void note_places(const Context& context, const plan::Step& step,
                 const base::Environment& environment) {
    std::string_view distribution;
    for (const std::string& variable : environment) {
        constexpr std::string_view name = "SLURM_DISTRIBUTION=";
        if (variable.starts_with(name))
            distribution = std::string_view(variable).substr(name.size());
    }
    const auto places = record::places_of_ranks(context.place.nodes, step.processes, distribution);
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
void remove_copied_output(const Context& context, const plan::Step& step) {
    if (context.plan.directories.stdouterr_host.empty()) return;
    for (int rank = 0; rank < step.processes; ++rank)
        context.remove_rank_files(std::to_string(rank));
}

// Tells the ranks of a job with a checkpoint that they will be ended.
class Warning {
  public:
    Warning(const std::optional<plan::Checkpoint>& checkpoint, ExecutionLog& log)
        : checkpoint_(checkpoint), log_(log) {}

    // Returns the signal to pass on to srun. When Slurm ends the job, it has sent TERM to the ranks
    // itself. srun would have them killed at once if it got TERM, too, so a first TERM becomes the
    // warning. Slurm kills what is left after KillWait.
    std::optional<int> pass_on(int signal) {
        const bool notice = signal == plan::checkpoint_notice;
        if (!checkpoint_) return notice ? std::nullopt : std::optional(signal);
        if (!notice && signal != SIGTERM) return signal;
        if (given_) return notice ? std::nullopt : std::optional(signal);
        given_ = true;
        const std::string line =
            "the job will be ended soon: the ranks get the signal of \"checkpoint\"";
        log_.master(line);
        std::printf("batchai: %s\n", line.c_str());
        std::fflush(stdout);
        return checkpoint_->signal;
    }
    [[nodiscard]] bool given() const { return given_; }

  private:
    const std::optional<plan::Checkpoint>& checkpoint_;
    ExecutionLog& log_;
    bool given_ = false;
};

// Returns the end of ranks that have failed after the warning, which they were told to do.
Ending ended_after_warning(int exit_code) {
    const record::EndWords words = record::words_of(record::EndedBy::time_limit);
    return {.failure = {.code = std::string(words.code),
                        .message = std::string(words.message),
                        .phase = std::string(Ranks::name),
                        .exit_code = exit_code},
            .by = record::EndedBy::time_limit,
            .exit_code = exit_code};
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

PhaseEnd judged(Context& context, const StepEnd& end, const TaskWords& words,
                const TensorFlowJob& tensorflow, bool warned) {
    constexpr std::string_view name = Ranks::name;
    const auto& [result, step_code, said] = end;
    std::optional<Ending> ending;
    if (result && step_code != 0) ending = ended_from_outside(context, *result, name);
    if (!ending)
        ending =
            node_failure(context, name, step_code == 0, result ? result->stopped_by : std::nullopt);
    if (!ending && context.host_updates != nullptr && context.host_updates->ranks_have_left())
        ending = for_other_hosts(*context.host_updates);
    if (!ending && step_code != 0 && warned) ending = ended_after_warning(step_code);
    if (ending || step_code == 0) return {.exit_code = step_code, .ending = std::move(ending)};

    record::Failure failure{.phase = std::string(name)};
    const Blame blamed = blame(failure, step_code, said, words);
    auto by = blamed.for_memory ? record::EndedBy::memory
                                : end_of_step(said).value_or(record::EndedBy::program);
    int exit_code = blamed.exit_code;
    if (auto of_servers = tensorflow.failure(failure, name)) {
        failure = std::move(of_servers->failure);
        by = of_servers->by;
        exit_code = failure.exit_code.value_or(exit_code);
    }
    const record::EndWords words_of_end = record::words_of(by);
    failure.code = words_of_end.code;
    failure.message = words_of_end.message;
    if (!blamed.evidence.empty()) context.log.master(blamed.evidence);
    std::fprintf(stderr, "batchai: %s%s\n", failure.message.c_str(),
                 where_and_why(failure).c_str());
    return {.exit_code = step_code,
            .ending = Ending{.failure = std::move(failure),
                             .by = by,
                             .exit_code = exit_code,
                             .may_start_again = true}};
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
                    .rank_failures = context.files().rank_failures(context.start())};
    forget_earlier_run(context, step);
    record::PieceWriter pieces(context.files().rank_pieces(context.start()).string());
    TaskOutputs outputs(context.logs);
    if (auto added = add_outputs(outputs, pieces, context, step); !added)
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
    environment.push_back(usage_variable(context.start()));
    TensorFlowJob tensorflow(context);
    const auto started = tensorflow.start(step, environment);
    bool noted = false;
    Warning warning(context.plan.checkpoint, context.log);
    StepEnd end{.result =
                    started ? context.steps.run(
                                  {.arguments = srun_arguments(context.plan, step, context.plan.mpi,
                                                               files, context.step_nodes()),
                                   .environment = srun_environment(environment),
                                   .tick =
                                       [&] {
                                           if (!std::exchange(noted, true))
                                               note_places(context, step, environment);
                                           outputs.poll();
                                           if (context.host_updates != nullptr)
                                               context.host_updates->poll();
                                           pieces.flush();
                                       },
                                   .enough = [&] { return tensorflow.poll(); },
                                   .pass_on = [&](int signal) { return warning.pass_on(signal); }})
                            : tl::unexpected(started.error())};
    tensorflow.end(end.result);
    if (!noted) note_places(context, step, environment);
    const bool copied = outputs.finish("the ranks' output");
    pieces.flush();
    context.log.collect_traces();
    if (!end.result || !tensorflow.has_succeeded(*end.result)) {
        end.exit_code = end.result ? end.result->exit_code : 1;
        end.said = end.result ? end.result->messages : end.result.error().text() + "\n";
    }
    // What srun says about the step has its place beside what the first rank says. It is only noise
    // if the ranks have ended on purpose.
    if (context.host_updates == nullptr || !context.host_updates->ranks_have_left())
        context.logs.append_text(file_of_task(step.stderr_name, "0"), end.said);
    context.log.all_nodes(
        fmt::format("the job's command has ended with exit code {}", end.exit_code));
    PhaseEnd out = judged(context, end, words, tensorflow, warning.given());
    // The search for the culprit reads these files.
    if (copied) remove_copied_output(context, step);
    tensorflow.remove_copied_output();
    return out;
}

}  // namespace batchai::run
