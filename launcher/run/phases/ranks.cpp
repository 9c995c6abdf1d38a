// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

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

// Whether each rank's standard output has a file of its own in the logs. srun then writes one file
// for each rank on the rank's own node, as it always does for standard error. Otherwise srun itself
// writes one file, on this node.
bool writes_each_rank(const plan::Step& step) {
    return file_of_task(step.stdout_name, "") != step.stdout_name;
}

base::Result<void> add_outputs(TaskOutputs& outputs, const Context& context,
                               const plan::Step& step) {
    std::vector<TaskFile> printed;
    std::vector<TaskFile> complained;
    for (int i = 0; i < step.processes; ++i) {
        const std::string rank = std::to_string(i);
        printed.push_back({rank, context.rank_output_file(rank)});
        complained.push_back({rank, context.rank_error_file(rank)});
    }
    if (writes_each_rank(step)) TRY(outputs.add(step.stdout_name, printed));
    return outputs.add(step.stderr_name, complained);
}

// Keeps standard output once: it is in the logs. The files of standard error stay, because they say
// which rank failed.
void remove_copied_output(const Context& context, const plan::Step& step) {
    std::error_code ignored;
    for (int i = 0; writes_each_rank(step) && i < step.processes; ++i)
        std::filesystem::remove(context.rank_output_file(std::to_string(i)), ignored);
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
    TaskOutputs outputs(context.logs);
    if (auto added = add_outputs(outputs, context, step); !added)
        return ends_with({.failure = {.code = "JobFailed",
                                      .message = added.error().text(),
                                      .phase = std::string(name),
                                      .node = context.place.nodes.front()}});
    for (int rank = 0; rank < step.processes; ++rank)
        words.error_files.push_back(context.rank_error_file(std::to_string(rank)));
    const StepFiles files{.standard_output = writes_each_rank(step)
                                                 ? context.rank_output_file("%t")
                                                 : context.logs.for_child(step.stdout_name),
                          .standard_error = context.rank_error_file("%t")};
    expect_node_failures(context);
    base::Environment environment = step_environment(context, step.kind);
    for (std::string& variable : report_variables(context.files(), context.start()))
        environment.push_back(std::move(variable));
    TensorFlowJob tensorflow(context);
    const auto started = tensorflow.start(step, environment);
    const auto result =
        started
            ? context.steps.run({.arguments = srun_arguments(context.plan, step, context.plan.mpi,
                                                             files, context.step_nodes()),
                                 .environment = srun_environment(environment),
                                 .tick = [&] { outputs.poll(); },
                                 .enough = [&] { return tensorflow.poll(); }})
            : tl::unexpected(started.error());
    tensorflow.end();
    if (outputs.finish("the ranks' output")) remove_copied_output(context, step);
    context.log.collect_traces();
    const bool ended_well = result && tensorflow.has_succeeded(*result);
    const int failed_with = result ? result->exit_code : 1;
    const int step_code = ended_well ? 0 : failed_with;
    std::string said = result ? result->messages : result.error().text() + "\n";
    if (ended_well) said.clear();
    // What srun says about the step has its place beside what the first rank says.
    context.logs.append_text(file_of_task(step.stderr_name, "0"), said);
    context.log.all_nodes(fmt::format("the job's command has ended with exit code {}", step_code));
    std::optional<Ending> ending;
    if (result && step_code != 0) ending = ended_from_outside(context, *result, name);
    if (!ending)
        ending =
            node_failure(context, name, step_code == 0, result ? result->stopped_by : std::nullopt);
    if (ending || step_code == 0) return {.exit_code = step_code, .ending = std::move(ending)};

    record::Failure failure{.phase = std::string(name)};
    const Blame blamed = blame(failure, step_code, said, words);
    const auto by = blamed.for_memory ? record::EndedBy::memory
                                      : end_of_step(said).value_or(record::EndedBy::program);
    const record::EndWords end = record::words_of(by);
    int exit_code = blamed.exit_code;
    if (auto of_servers = tensorflow.failure(failure, name)) {
        failure = std::move(*of_servers);
        exit_code = failure.exit_code.value_or(exit_code);
    }
    failure.code = end.code;
    failure.message = end.message;
    if (!blamed.evidence.empty()) context.log.master(blamed.evidence);
    std::fprintf(stderr, "batchai: %s%s\n", failure.message.c_str(),
                 where_and_why(failure).c_str());
    return {.exit_code = step_code,
            .ending = Ending{.failure = std::move(failure),
                             .by = by,
                             .exit_code = exit_code,
                             .may_start_again = true}};
}

}  // namespace batchai::run
