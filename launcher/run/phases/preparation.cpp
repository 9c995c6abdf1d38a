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

// Returns "prep-n1.txt" for srun's pattern "prep-%N.txt" and the node "n1".
std::string file_of_node(std::string pattern, const std::string& node) {
    if (const auto at = pattern.find("%N"); at != std::string::npos) pattern.replace(at, 2, node);
    return pattern;
}

// Returns a merger for each file that the step writes on a node; each has one target in the logs.
// The nodes do not write to the place of the logs themselves but into the job's directory, to which
// nobody else has access.
base::Result<std::vector<LineMerger>> outputs_of(const Context& context, const plan::Step& step) {
    std::vector<LineMerger> outputs;
    for (const std::string& pattern : {step.stdout_name, step.stderr_name}) {
        const bool each_node = pattern.find("%N") != std::string::npos;
        for (const std::string& node : context.granted.nodes) {
            const std::string name = file_of_node(pattern, node);
            outputs.emplace_back(std::vector{context.preparation_file(name)},
                                 TRY(context.logs.append(name)), name);
            if (!each_node) break;
        }
    }
    return outputs;
}

}  // namespace

PhaseEnd Preparation::run(Context& context) {
    const plan::Step& step = *context.step(plan::StepKind::preparation);
    const auto& nodes = context.granted.nodes;
    std::printf("batchai: preparing %zu nodes\n", nodes.size());
    std::fflush(stdout);
    context.log.all_nodes("job preparation starts");
    const StepFiles files{.standard_output = context.preparation_file(step.stdout_name),
                          .standard_error = context.preparation_file(step.stderr_name)};
    auto outputs = outputs_of(context, step);
    if (!outputs)
        return ends_with({.failure = {.code = "JobPreparationFailed",
                                      .message = outputs.error().text(),
                                      .phase = std::string(name),
                                      .node = nodes.front()},
                          .by = record::EndedBy::preparation});
    std::string copy_problem;
    const auto note = [&](base::Result<void> copied) {
        if (!copied) copy_problem = copied.error().text();
    };
    expect_node_failures(context);
    const std::string step_name = fmt::format("{}.{}", context.attempt(), name);
    base::Environment environment = step_environment(context, step.kind);
    for (std::string& variable : report_variables(context.files(), step_name))
        environment.push_back(std::move(variable));
    const auto result =
        context.steps.run({.arguments = srun_arguments(context.plan, step, "none", files),
                           .environment = srun_environment(environment),
                           .tick = [&] {
                               for (LineMerger& output : *outputs)
                                   note(output.poll());
                           }});
    for (LineMerger& output : *outputs)
        note(output.finish());
    if (!copy_problem.empty())
        std::fprintf(stderr, "batchai: warning: preparation's output: %s\n", copy_problem.c_str());
    context.log.collect_traces();
    const int step_code = result ? result->exit_code : 1;
    const auto stopped_by = result ? result->stopped_by : std::nullopt;
    if (auto ending = node_failure(context, name, step_code == 0, stopped_by);
        ending && !stopped_by)
        return {.exit_code = step_code, .ending = std::move(ending)};
    if (step_code == 0) {
        context.log.all_nodes("job preparation has ended with exit code 0");
        return {};
    }
    const record::EndWords end = record::words_of(record::EndedBy::preparation);
    record::Failure failure{.code = std::string(end.code),
                            .message = std::string(end.message),
                            .phase = std::string(name)};
    if (!result) {
        failure.message = result.error().text();
        return ends_with({.failure = std::move(failure), .by = record::EndedBy::preparation});
    }
    std::fputs(result->messages.c_str(), stderr);
    if (auto ending = ended_from_outside(context, *result, name))
        return {.exit_code = step_code, .ending = std::move(ending)};
    TaskWords words{.job_id = context.granted.job_id,
                    .error_files = {},
                    .refusals = context.files().refusals(step_name)};
    for (const std::string& node : nodes)
        words.error_files.push_back(file_of_node(files.standard_error, node));
    const int exit_code = blame(failure, step_code, result->messages, words).exit_code;
    failure.rank.reset();  // each task number stands for a node, not for a rank
    return {.exit_code = step_code,
            .ending = Ending{.failure = std::move(failure),
                             .by = record::EndedBy::preparation,
                             .exit_code = exit_code}};
}

}  // namespace batchai::run
