// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/logs.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

// Returns ": rank 1 on n2: KeyError: 'a'", or less if less is known.
std::string where_and_why(const record::Failure& failure) {
    if (failure.rank)
        return fmt::format(": rank {} on {}: {}", *failure.rank, failure.node,
                           failure.first_error_line);
    return failure.first_error_line.empty() ? "" : ": " + failure.first_error_line;
}

}  // namespace

PhaseEnd Ranks::run(Context& context) {
    const plan::Step step = context.main_step_here();
    std::printf("batchai: %d ranks start; output in %s\n", step.processes,
                context.logs.path().c_str());
    std::fflush(stdout);
    context.log.all_nodes(fmt::format("the job's command starts, {} processes", step.processes));
    TaskWords words{.job_id = context.granted.job_id,
                    .error_files = {},
                    .refusals = context.files().refusals(context.start()),
                    .rank_failures = context.files().rank_failures(context.start())};
    for (int rank = 0; rank < step.processes; ++rank)
        words.error_files.push_back(context.rank_error_file(std::to_string(rank)));
    auto all_errors = context.logs.append(step.stderr_name);
    if (!all_errors)
        return ends_with({.failure = {.code = "JobFailed",
                                      .message = all_errors.error().text(),
                                      .phase = std::string(name),
                                      .node = context.place.nodes.front()}});
    LineMerger merger(words.error_files, std::move(*all_errors), step.stderr_name);
    std::string merge_problem;
    const auto merge = [&](base::Result<void> merged) {
        if (!merged) merge_problem = merged.error().text();
    };
    const StepFiles files{.standard_output = context.logs.for_child(step.stdout_name),
                          .standard_error = context.rank_error_file("%t")};
    expect_node_failures(context);
    base::Environment environment = step_environment(context, step.kind);
    for (std::string& variable : report_variables(context.files(), context.start()))
        environment.push_back(std::move(variable));
    const auto result =
        context.steps.run({.arguments = srun_arguments(context.plan, step, context.plan.mpi, files,
                                                       context.step_nodes()),
                           .environment = srun_environment(environment),
                           .tick = [&] { merge(merger.poll()); }});
    merge(merger.finish());
    if (!merge_problem.empty())
        std::fprintf(stderr, "batchai: warning: standard error: %s\n", merge_problem.c_str());
    context.log.collect_traces();
    const int step_code = result ? result->exit_code : 1;
    const std::string said = result ? result->messages : result.error().text() + "\n";
    context.logs.append_text(step.stderr_name, said);
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
    failure.code = end.code;
    failure.message = end.message;
    if (!blamed.evidence.empty()) context.log.master(blamed.evidence);
    std::fprintf(stderr, "batchai: %s%s\n", failure.message.c_str(),
                 where_and_why(failure).c_str());
    return {.exit_code = step_code,
            .ending = Ending{.failure = std::move(failure),
                             .by = by,
                             .exit_code = blamed.exit_code,
                             .may_start_again = true}};
}

}  // namespace batchai::run
