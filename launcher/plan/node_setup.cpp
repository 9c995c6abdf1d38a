// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/ids.hpp"
#include "base/text.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

constexpr std::size_t digits_of_key = 16;

// The fault is in the cluster, so it has no place in the job file.
void fault(Planning& planning, Finding finding, std::string_view what, std::string hint) {
    planning.findings.add(
        finding, {},
        fmt::format("the setup task of cluster \"{}\": {}", planning.inputs.cluster->name, what),
        std::move(hint));
}

// Returns the host path of the directory of the setup task's logs; empty if they must stay with
// those of the job.
std::string log_directory(Planning& planning, const SetupTask& task) {
    const std::string prefix = normalized(planning.expand(task.std_out_err_path_prefix, {}));
    if (!prefix.starts_with('/') || has_parent_component(prefix)) {
        fault(
            planning, Finding::bad_path,
            fmt::format("\"stdOutErrPathPrefix\" expands to \"{}\", which is not an absolute path "
                        "without \"..\"",
                        prefix),
            "start it with a volume of the cluster, such as $AZ_BATCHAI_MOUNT_ROOT/afs");
        return {};
    }
    auto host = planning.plan.host_path(
        normalized(fmt::format("{}/{}", prefix, task.std_out_err_path_suffix)));
    if (host) return std::move(*host);
    planning.plan.notices.push_back(fmt::format(
        "{} is not a directory that all nodes share, so the logs of the cluster's setup "
        "task are among those of the job",
        task.std_out_err_path_prefix));
    return {};
}

}  // namespace

void plan_node_setup(Planning& planning) {
    const auto& cluster = planning.inputs.cluster;
    if (!cluster || !cluster->setup_task) return;
    const SetupTask& task = *cluster->setup_task;
    std::string command;
    for (const Variable& variable : task.environment)
        command += fmt::format("export {}={}\n", variable.name,
                               base::single_quoted(planning.expand(variable.value, {})));
    command += task.command_line;
    if (command.size() >= longest_argument) {
        fault(planning, Finding::too_long, "is too long for one argument of a program",
              "put it into a file on a mounted directory");
        return;
    }
    // A node does a task again if the task has changed. What the task does in a container is gone
    // with it, unless it is in a directory of the node, so each image counts by itself.
    const auto& container = planning.plan.container;
    std::string identity =
        fmt::format("{}\n{}\n", task.std_out_err_path_suffix, container ? container->image : "");
    for (const Variable& variable : task.environment)
        identity += fmt::format("{}={}\n", variable.name, variable.value);
    identity += task.command_line;
    planning.plan.node_setup = NodeSetup{.command = std::move(command),
                                         .key = base::sha256_hex(identity).substr(0, digits_of_key),
                                         .log_directory = log_directory(planning, task)};
}

}  // namespace batchai::plan
