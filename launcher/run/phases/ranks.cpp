// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/line_merger.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

PhaseEnd Ranks::run(Context& context) {
    const plan::Step step = context.main_step_here();
    std::printf("batchai: %d ranks start; output in %s\n", step.processes,
                output_directory(context.plan).c_str());
    std::fflush(stdout);
    context.log.all_nodes(fmt::format("the job's command starts, {} processes", step.processes));
    std::vector<std::string> error_files;
    for (int rank = 0; rank < step.processes; ++rank)
        error_files.push_back(context.rank_error_file(std::to_string(rank)));
    const std::string all_errors = context.output_path(step.stderr_name);
    auto merger = LineMerger::open(error_files, all_errors);
    if (!merger)
        return ends_with({.failure = {.code = "JobFailed",
                                      .message = merger.error().text(),
                                      .phase = std::string(name),
                                      .node = context.place.nodes.front()}});
    std::string merge_problem;
    const auto merge = [&](base::Result<void> merged) {
        if (!merged) merge_problem = merged.error().text();
    };
    const StepFiles files{.standard_output = context.output_path(step.stdout_name),
                          .standard_error = context.rank_error_file("%t")};
    expect_node_failures(context);
    const auto result =
        context.steps.run({.arguments = srun_arguments(context.plan, step, context.plan.mpi, files,
                                                       context.step_nodes()),
                           .environment = srun_environment(step_environment(context, step.kind)),
                           .tick = [&] { merge(merger->poll()); }});
    merge(merger->finish());
    if (!merge_problem.empty())
        std::fprintf(stderr, "batchai: warning: standard error: %s\n", merge_problem.c_str());
    context.log.collect_traces();
    const int step_code = result ? result->exit_code : 1;
    const std::string said = result ? result->messages : result.error().text() + "\n";
    if (!said.empty()) std::ofstream(all_errors, std::ios::app) << said;
    context.log.all_nodes(fmt::format("the job's command has ended with exit code {}", step_code));
    std::optional<Ending> ending;
    if (result && step_code != 0) ending = ended_from_outside(*result, name);
    if (!ending) ending = node_failure(context, name, step_code == 0);
    if (ending || step_code == 0) return {.exit_code = step_code, .ending = std::move(ending)};

    record::Failure failure{.code = "JobFailed",
                            .message = "Job failed with non-zero exit code",
                            .phase = std::string(name)};
    const int exit_code = blame(failure, step_code, said, error_files);
    const std::string culprit = failure.rank ? fmt::format(": rank {} on {}: {}", *failure.rank,
                                                           failure.node, failure.first_error_line)
                                             : std::string();
    std::fprintf(stderr, "batchai: %s%s\n", failure.message.c_str(), culprit.c_str());
    return {.exit_code = step_code,
            .ending = Ending{
                .failure = std::move(failure), .exit_code = exit_code, .may_start_again = true}};
}

}  // namespace batchai::run
