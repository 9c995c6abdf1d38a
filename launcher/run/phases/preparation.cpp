// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <string>
#include <vector>

#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

// "prep-n1.txt" of srun's "prep-%N.txt".
std::string file_of_node(std::string pattern, const std::string& node) {
    if (const auto at = pattern.find("%N"); at != std::string::npos) pattern.replace(at, 2, node);
    return pattern;
}

}  // namespace

PhaseEnd Preparation::run(Context& context) {
    const plan::Step& step = *context.step(plan::StepKind::preparation);
    const auto& nodes = context.granted.nodes;
    std::printf("batchai: preparing %zu nodes\n", nodes.size());
    std::fflush(stdout);
    context.log.all_nodes("job preparation starts");
    const StepFiles files{.standard_output = context.output_path(step.stdout_name),
                          .standard_error = context.output_path(step.stderr_name)};
    expect_node_failures(context);
    const auto result =
        context.steps.run({.arguments = srun_arguments(context.plan, step, "none", files),
                           .environment = srun_environment(step_environment(context, step.kind))});
    context.log.collect_traces();
    const int step_code = result ? result->exit_code : 1;
    if (auto ending = node_failure(context, name, step_code == 0);
        ending && !(result && result->stopped_by))
        return {.exit_code = step_code, .ending = std::move(ending)};
    if (step_code == 0) {
        context.log.all_nodes("job preparation has ended with exit code 0");
        return {};
    }
    record::Failure failure{.code = "JobPreparationFailed", .phase = std::string(name)};
    if (!result) {
        failure.message = result.error().text();
        return ends_with({.failure = std::move(failure)});
    }
    std::fputs(result->messages.c_str(), stderr);
    if (auto ending = ended_from_outside(*result, name))
        return {.exit_code = step_code, .ending = std::move(ending)};
    std::vector<std::string> error_files;
    for (const std::string& node : nodes)
        error_files.push_back(file_of_node(files.standard_error, node));
    failure.message = "Job preparation task failed with non-zero exit code";
    const int exit_code = blame(failure, step_code, result->messages, error_files);
    failure.rank.reset();  // its tasks are nodes, not ranks
    return {.exit_code = step_code,
            .ending = Ending{.failure = std::move(failure), .exit_code = exit_code}};
}

}  // namespace batchai::run
