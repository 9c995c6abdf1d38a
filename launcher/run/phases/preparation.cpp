// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "run/again/hosts.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/task_outputs.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

PhaseEnd Preparation::run(Context& context) {
    const auto nodes = context.ready_nodes();
    const plan::Step step = shrunk(*context.step(plan::StepKind::preparation), nodes.size());
    std::printf("batchai: preparing %zu nodes\n", nodes.size());
    std::fflush(stdout);
    context.log.all_nodes("job preparation starts");
    const StepFiles files{.standard_output = context.preparation_file(by_task(step.stdout_name)),
                          .standard_error = context.preparation_file(by_task(step.stderr_name))};
    TaskOutputs outputs(context.logs);
    for (const auto& [pattern, own] : {std::pair(step.stdout_name, files.standard_output),
                                       std::pair(step.stderr_name, files.standard_error)}) {
        if (auto added = outputs.add(pattern, files_on_nodes(nodes, own)); !added)
            return ends_with({.failure = {.code = "JobPreparationFailed",
                                          .message = added.error().text(),
                                          .phase = std::string(name),
                                          .node = nodes.front()},
                              .by = record::EndedBy::preparation});
    }
    expect_node_failures(context);
    const std::string step_name = fmt::format("{}.{}", context.attempt(), name);
    base::Environment environment = step_environment(context, step.kind);
    for (std::string& variable : report_variables(context.files(), step_name))
        environment.push_back(std::move(variable));
    for (std::string& variable : usage_variables(step_name))
        environment.push_back(std::move(variable));
    environment.push_back(starts_variable(step_name));
    TaskWords words{.job_id = context.granted.job_id,
                    .error_files = {},
                    .refusals = context.files().refusals(step_name)};
    forget_earlier_try(context.granted.nodes, {files.standard_output, files.standard_error},
                       words.refusals);
    for (const TaskFile& file : files_on_nodes(nodes, files.standard_error))
        words.error_files.push_back(file.path);
    const auto result = context.steps.run(
        {.arguments = srun_arguments(context.plan, step, "none", files, context.to_name(nodes)),
         .environment = srun_environment(context.plan, files, environment),
         .tick = [&] { outputs.poll(); },
         .starts = starts_on_nodes(context, step_name, words.error_files)});
    outputs.finish("the preparation's output", context.log);
    context.log.collect_traces();
    const int step_code = result ? result->exit_code : 1;
    const auto stopped_by = result ? result->stopped_by : std::nullopt;
    if (auto ending = node_failure(context, name, step_code == 0, stopped_by);
        ending && !stopped_by)
        return {.exit_code = step_code, .ending = std::move(ending)};
    constexpr TasksOfStep tasks{.task = "the preparation", .on_each_node = true};
    if (step_code == 0) {
        log_unconfirmed_starts(context, *result, tasks);
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
    if (auto ending = lost_a_node(*result, name))
        return {.exit_code = step_code, .ending = std::move(ending)};
    if (auto ending = start_failure(*result, tasks, name))
        return {.exit_code = step_code, .ending = std::move(ending)};
    const int exit_code = blame(failure, step_code, result->messages, words).exit_code;
    name_full_disk(failure, result->no_room);
    failure.rank.reset();  // each task number stands for a node, not for a rank
    return {.exit_code = step_code,
            .ending = Ending{.failure = std::move(failure),
                             .by = record::EndedBy::preparation,
                             .exit_code = exit_code}};
}

}  // namespace batchai::run
