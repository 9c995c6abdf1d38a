// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/task_outputs.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

// The marker is in the user's private directory on the node, so nobody else can have made it. It
// has the id that the kernel made when the node was started. The lock is for jobs that share a
// node.
constexpr std::string_view once_per_boot = R"sh(
stop() {{ echo "batchai: the node's setup: $*" >&2; exit 1; }}
place=${{AZ_BATCHAI_JOB_TEMP%/*}}/node-setup
marker=$place/{key}
boot=$(cat /proc/sys/kernel/random/boot_id) || stop "the node does not tell its boot id"
mkdir -p -m 700 "$place" || stop "$place cannot be made"
exec 9>> "$marker.lock" || stop "$marker.lock cannot be opened"
flock 9 || stop "the program flock of util-linux is missing or does not work"
if [ -f "$marker" ] && [ "$(cat "$marker")" = "$boot" ]; then exit 0; fi
rm -f "$marker"
shell=/bin/bash
[ -x "$shell" ] || shell=/bin/sh
"$shell" -c {command} 9>&- || exit
echo "$boot" > "$marker.new" && mv -f "$marker.new" "$marker" || stop "$marker cannot be written"
)sh";

plan::Step setup_step(const plan::NodeSetup& setup, std::size_t nodes) {
    // With the layout of preparation, its one task on each node may use the whole node.
    return {.kind = plan::StepKind::preparation,
            .command = fmt::format(once_per_boot, fmt::arg("key", setup.key),
                                   fmt::arg("command", base::single_quoted(setup.command))),
            .processes = static_cast<int>(nodes),
            .processes_per_node = 1};
}

record::Failure failure_with(std::string message) {
    const record::EndWords words = record::words_of(record::EndedBy::node_setup);
    return {.code = std::string(words.code),
            .message = message.empty() ? std::string(words.message) : std::move(message),
            .phase = std::string(NodeSetup::name)};
}

PhaseEnd cannot_begin(const base::Error& error) {
    return ends_with({.failure = failure_with(error.text()), .by = record::EndedBy::node_setup});
}

constexpr TasksOfStep tasks{.task = "the setup", .on_each_node = true};

PhaseEnd setup_failed(Context& context, const StepResult& end, const TaskWords words) {
    std::fputs(end.messages.c_str(), stderr);
    if (auto ending = ended_from_outside(context, end, NodeSetup::name))
        return {.exit_code = end.exit_code, .ending = std::move(ending)};
    if (auto ending = lost_a_node(end, NodeSetup::name))
        return {.exit_code = end.exit_code, .ending = std::move(ending)};
    if (auto ending = start_failure(end, tasks, NodeSetup::name))
        return {.exit_code = end.exit_code, .ending = std::move(ending)};
    record::Failure failure = failure_with({});
    const int exit_code = blame(failure, end.exit_code, end.messages, words).exit_code;
    name_full_disk(failure, end.no_room);
    failure.rank.reset();  // each task number stands for a node, not for a rank
    return {.exit_code = end.exit_code,
            .ending = Ending{.failure = std::move(failure),
                             .by = record::EndedBy::node_setup,
                             .exit_code = exit_code}};
}

}  // namespace

bool NodeSetup::wanted(const Context& context) {
    return context.plan.node_setup.has_value();
}

PhaseEnd NodeSetup::run(Context& context) {
    const plan::NodeSetup& setup = *context.plan.node_setup;
    const auto nodes = context.ready_nodes();
    const bool own_place = !setup.log_directory.empty();
    const std::string infix = own_place ? "" : "-node_setup";
    const std::string output = fmt::format("stdout{}-%N.txt", infix);
    const std::string errors = fmt::format("stderr{}-%N.txt", infix);
    LogDirectory directory(setup.log_directory);
    if (own_place) {
        if (auto made = directory.make(); !made) return cannot_begin(made.error());
    }
    TaskOutputs outputs(own_place ? directory : context.logs);
    const auto file_of = [&](const std::string& pattern) {
        return context.preparation_file("node_setup-" + by_task(pattern));
    };
    const StepFiles files{.standard_output = file_of(output), .standard_error = file_of(errors)};
    for (const auto& [pattern, own] :
         {std::pair(output, files.standard_output), std::pair(errors, files.standard_error)}) {
        if (auto added = outputs.add(pattern, files_on_nodes(nodes, own)); !added)
            return cannot_begin(added.error());
    }
    context.log.all_nodes("the setup of the node starts, unless it is done already");
    expect_node_failures(context);
    const std::string step_name = fmt::format("{}.{}", context.attempt(), name);
    // As the user, also in a container. A step of the kind "master" has no variables of ranks.
    base::Environment environment = step_environment(context, plan::StepKind::master);
    for (std::string& variable : report_variables(context.files(), step_name))
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
        {.arguments = srun_arguments(context.plan, setup_step(setup, nodes.size()), "none", files,
                                     context.to_name(nodes)),
         .environment = srun_environment(context.plan, files, environment),
         .tick = [&] { outputs.poll(); },
         .starts = starts_on_nodes(context, step_name, words.error_files)});
    outputs.finish("the setup's output", context.log);
    context.log.collect_traces();
    if (!result) return cannot_begin(result.error());
    if (auto ending = node_failure(context, name, result->exit_code == 0, result->stopped_by);
        ending && !result->stopped_by)
        return {.exit_code = result->exit_code, .ending = std::move(ending)};
    if (result->exit_code == 0) {
        log_unconfirmed_starts(context, *result, tasks);
        context.log.all_nodes("the node is set up");
        return {};
    }
    return setup_failed(context, *result, words);
}

}  // namespace batchai::run
