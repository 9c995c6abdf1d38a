// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

Step preparation(const std::string& command, int nodes) {
    // A job with several nodes has one file for each node.
    const std::string_view suffix = nodes > 1 ? "-%N" : "";
    return {.kind = StepKind::preparation,
            .command = command,
            .processes = nodes,
            .stdout_name = fmt::format("stdout-job_prep{}.txt", suffix),
            .stderr_name = fmt::format("stderr-job_prep{}.txt", suffix)};
}

Step ranks(std::string command, const Allocation& allocation) {
    return {.kind = StepKind::ranks,
            .command = std::move(command),
            .processes = allocation.processes,
            .processes_per_node = allocation.processes_per_node,
            .pmix = true,
            .stdout_name = "stdout.txt",
            .stderr_name = "stderr.txt"};
}

// Quotes a path as one word for the shell. A path below a node-local directory starts with that
// directory's variable, because a node may have the directory in another place than planned.
std::string quoted_path(const Planning& planning, const std::string& path) {
    const Directories& directories = planning.plan.directories;
    const std::array<std::pair<const std::string&, std::string_view>, 3> places{
        {{directories.job_mount_root, "AZ_BATCHAI_JOB_MOUNT_ROOT"},
         {directories.mount_root, "AZ_BATCHAI_MOUNT_ROOT"},
         {directories.job_temp, "AZ_BATCHAI_JOB_TEMP"}}};
    for (const auto& [place, variable] : places) {
        if (!place.empty() && path.size() > place.size() && is_within(path, place))
            return fmt::format("\"${}\"{}", variable,
                               base::single_quoted(path.substr(place.size())));
    }
    return base::single_quoted(path);
}

std::string python_command(Planning& planning, const job::HorovodSettings& settings) {
    const std::string interpreter =
        settings.python_interpreter_path
            ? planning.expand(*settings.python_interpreter_path,
                              "/properties/horovodSettings/pythonInterpreterPath")
            : planning.site.python_interpreter;
    const std::string script = planning.expand(settings.python_script_file_path,
                                               "/properties/horovodSettings/pythonScriptFilePath");
    std::string command = fmt::format("exec {} {}", quoted_path(planning, interpreter),
                                      quoted_path(planning, script));
    const std::string all_arguments = settings.command_line_args.value_or("");
    const std::string_view arguments = base::trim(all_arguments);
    return arguments.empty() ? command : fmt::format("{} {}", command, arguments);
}

// The keys of the settings objects, for messages.
std::string_view settings_key(std::string_view tool_type) {
    if (tool_type == "pytorch") return "pyTorchSettings";
    if (tool_type == "tensorflow") return "tensorFlowSettings";
    if (tool_type == "cntk") return "cntkSettings";
    if (tool_type == "caffe") return "caffeSettings";
    if (tool_type == "caffe2") return "caffe2Settings";
    return "chainerSettings";
}

struct StepMaker {
    Planning& planning;

    std::optional<Step> operator()(const job::HorovodSettings& settings) const {
        std::string command = python_command(planning, settings);
        planning.refuse_too_long(command.size(), "/properties/horovodSettings/commandLineArgs");
        return ranks(std::move(command), planning.plan.allocation);
    }

    std::optional<Step> operator()(const job::CustomMpiSettings& settings) const {
        planning.refuse_too_long(settings.command_line.size(),
                                 "/properties/customMpiSettings/commandLine");
        return ranks(settings.command_line, planning.plan.allocation);
    }

    std::optional<Step> operator()(const job::CustomToolkitSettings& settings) const {
        if (!settings.command_line) {
            planning.findings.add(Finding::no_command, "/properties/customToolkitSettings",
                                  "\"customToolkitSettings\" has no \"commandLine\"",
                                  "say what to run on the first node");
            return std::nullopt;
        }
        planning.refuse_too_long(settings.command_line->size(),
                                 "/properties/customToolkitSettings/commandLine");
        return Step{.kind = StepKind::master,
                    .command = *settings.command_line,
                    .stdout_name = "stdout.txt",
                    .stderr_name = "stderr.txt"};
    }

    template <typename Settings>
    std::optional<Step> operator()(const Settings& settings) const {
        const std::string_view key = settings_key(settings.tool_type);
        planning.findings.add(Finding::toolkit_not_supported, fmt::format("/properties/{}", key),
                              fmt::format("{} is not supported yet", key),
                              "use horovodSettings, customMpiSettings or customToolkitSettings");
        return std::nullopt;
    }
};

}  // namespace

void plan_steps(Planning& planning) {
    Plan& plan = planning.plan;
    if (const auto& command = planning.spec.job_preparation) {
        planning.refuse_too_long(command->size(), "/properties/jobPreparation/commandLine");
        plan.steps.push_back(preparation(*command, plan.allocation.nodes));
    }
    if (auto step = std::visit(StepMaker{planning}, planning.spec.toolkit))
        plan.steps.push_back(std::move(*step));
}

}  // namespace batchai::plan
