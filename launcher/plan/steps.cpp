// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/elastic.hpp"
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

// The standard output and error of all ranks together, and those of each rank: srun replaces "%t"
// by the rank's number.
constexpr std::string_view together;
constexpr std::string_view each_rank = "-%t";
constexpr std::string_view each_worker = "-wk-%t";

Step ranks(std::string command, const Allocation& allocation, std::string_view files = together) {
    return {.kind = StepKind::ranks,
            .command = std::move(command),
            .processes = allocation.processes,
            .processes_per_node = allocation.processes_per_node,
            .pmix = true,
            .stdout_name = fmt::format("stdout{}.txt", files),
            .stderr_name = fmt::format("stderr{}.txt", files)};
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

// A program and its arguments, which the job's shell expands.
struct Program {
    std::string words;  // quoted
    const std::optional<std::string>& arguments;
    std::string_view arguments_key = "commandLineArgs";
};

struct StepMaker {
    Planning& planning;

    std::optional<Step> operator()(const job::HorovodSettings& settings) const {
        Step step = python_ranks(settings);
        step.tells_bad_wiring = true;
        return step;
    }
    std::optional<Step> operator()(const job::ChainerSettings& settings) const {
        return python_ranks(settings);
    }
    std::optional<Step> operator()(const job::Caffe2Settings& settings) const {
        return python_ranks(settings, each_rank);
    }
    std::optional<Step> operator()(const job::PyTorchSettings& settings) const {
        const bool mpi = settings.communication_backend == job::CommunicationBackend::mpi;
        Step step = python_ranks(settings, mpi ? together : each_rank);
        step.tells_bad_wiring = !mpi;
        return step;
    }

    std::optional<Step> operator()(const job::CntkSettings& settings) const {
        if (settings.python_script_file_path) return python_ranks(settings);
        return ranks_of(settings, {.words = "cntk configFile=" + config_file(settings),
                                   .arguments = settings.command_line_args});
    }

    std::optional<Step> operator()(const job::CaffeSettings& settings) const {
        if (settings.python_script_file_path) return python_ranks(settings);
        return ranks_of(settings, {.words = "caffe train -solver " + config_file(settings),
                                   .arguments = settings.command_line_args});
    }

    std::optional<Step> operator()(const job::TensorFlowSettings& settings) const {
        const Program master{.words = python_words(settings),
                             .arguments = settings.master_command_line_args,
                             .arguments_key = "masterCommandLineArgs"};
        const int workers = planning.plan.allocation.processes;
        if (workers == 1 && settings.parameter_server_count.value_or(0) == 0) {
            if (settings.worker_command_line_args) report_unused(settings, "workerCommandLineArgs");
            if (settings.parameter_server_command_line_args)
                report_unused(settings, "parameterServerCommandLineArgs");
            return ranks_of(settings, master, each_worker);
        }
        if (last_value(planning.plan.environment, elastic_nodes_variable) != nullptr)
            planning.findings.add(
                Finding::toolkit_not_supported, pointer_to(settings),
                fmt::format("{} with several processes cannot be an elastic job",
                            settings.settings_key),
                fmt::format("remove {}, or use horovodSettings", elastic_nodes_variable));
        plan_parameter_servers(settings);
        const Program worker{.words = master.words,
                             .arguments = settings.worker_command_line_args,
                             .arguments_key = "workerCommandLineArgs"};
        std::string command = command_of(settings, master);
        if (const std::string others = command_of(settings, worker); others != command)
            // The blank line keeps a backslash at the end of the command from joining it with "fi".
            command =
                fmt::format("if [ \"$SLURM_PROCID\" = 0 ]; then\n{}\n\nfi\n{}", command, others);
        planning.refuse_too_long(command.size(), pointer_to(settings));
        return ranks(std::move(command), planning.plan.allocation, each_worker);
    }

    std::optional<Step> operator()(const job::CustomMpiSettings& settings) const {
        planning.refuse_too_long(settings.command_line.size(), pointer_to(settings, "commandLine"));
        return ranks(settings.command_line, planning.plan.allocation);
    }

    std::optional<Step> operator()(const job::CustomToolkitSettings& settings) const {
        if (!settings.command_line) {
            planning.findings.add(
                Finding::no_command, fmt::format("/properties/{}", settings.settings_key),
                fmt::format("\"{}\" has no \"commandLine\"", settings.settings_key),
                "say what to run on the first node");
            return std::nullopt;
        }
        planning.refuse_too_long(settings.command_line->size(),
                                 pointer_to(settings, "commandLine"));
        return Step{.kind = StepKind::master,
                    .command = *settings.command_line,
                    .stdout_name = "stdout.txt",
                    .stderr_name = "stderr.txt"};
    }

  private:
    void report_unused(const job::TensorFlowSettings& settings, std::string_view key) const {
        planning.findings.add(
            Finding::no_effect, pointer_to(settings, key),
            fmt::format("\"{}\" has no effect: the job runs one process, which has "
                        "\"masterCommandLineArgs\"",
                        key),
            "remove it, or ask for more workers");
    }

    template <typename Settings>
    static std::string pointer_to(const Settings& settings) {
        return fmt::format("/properties/{}", settings.settings_key);
    }

    template <typename Settings>
    static std::string pointer_to(const Settings& settings, std::string_view key) {
        return fmt::format("/properties/{}/{}", settings.settings_key, key);
    }

    // Expands the path and quotes it.
    template <typename Settings>
    std::string word(const Settings& settings, std::string_view key,
                     const std::string& path) const {
        return quoted_path(planning, planning.expand(path, pointer_to(settings, key)));
    }

    // Does the same. What the snapshot has is run from there.
    template <typename Settings>
    std::string script_word(const Settings& settings, std::string_view key,
                            const std::string& path) const {
        return quoted_path(planning,
                           in_snapshot(planning, planning.expand(path, pointer_to(settings, key))));
    }

    template <typename Settings>
    std::string config_file(const Settings& settings) const {
        return script_word(settings, "configFilePath", settings.config_file_path.value());
    }

    // The interpreter and the script.
    template <typename Settings>
    std::string python_words(const Settings& settings) const {
        // The script is optional where a toolkit also runs something else.
        const std::optional<std::string> script = settings.python_script_file_path;
        const auto& interpreter = settings.python_interpreter_path;
        return fmt::format("{} {}",
                           interpreter ? word(settings, "pythonInterpreterPath", *interpreter)
                                       : quoted_path(planning, usual_interpreter(planning)),
                           script_word(settings, "pythonScriptFilePath", script.value()));
    }

    template <typename Settings>
    Step python_ranks(const Settings& settings, std::string_view files = together) const {
        return ranks_of(settings,
                        {.words = python_words(settings), .arguments = settings.command_line_args},
                        files);
    }

    template <typename Settings>
    std::string command_of(const Settings& settings, const Program& program) const {
        std::string command = "exec " + program.words;
        const std::string all_arguments = program.arguments.value_or("");
        const std::string_view arguments = base::trim(all_arguments);
        if (!arguments.empty()) command.append(" ").append(arguments);
        planning.refuse_too_long(command.size(), pointer_to(settings, program.arguments_key));
        return command;
    }

    template <typename Settings>
    Step ranks_of(const Settings& settings, const Program& program,
                  std::string_view files = together) const {
        return ranks(command_of(settings, program), planning.plan.allocation, files);
    }

    void plan_parameter_servers(const job::TensorFlowSettings& settings) const {
        const int servers = settings.parameter_server_count.value_or(1);
        if (servers == 0) return;
        planning.plan.steps.push_back(
            {.kind = StepKind::parameter_servers,
             .command =
                 command_of(settings, {.words = python_words(settings),
                                       .arguments = settings.parameter_server_command_line_args,
                                       .arguments_key = "parameterServerCommandLineArgs"}),
             .processes = servers,
             .stdout_name = "stdout-ps-%t.txt",
             .stderr_name = "stderr-ps-%t.txt"});
    }
};

}  // namespace

void plan_steps(Planning& planning) {
    Plan& plan = planning.plan;
    if (const auto& command = planning.spec.job_preparation) {
        planning.refuse_too_long(command->size(), "/properties/jobPreparation/commandLine");
        plan.steps.push_back(preparation(*command, plan.allocation.all_nodes()));
    }
    if (auto step = std::visit(StepMaker{planning}, planning.spec.toolkit))
        plan.steps.push_back(std::move(*step));
}

}  // namespace batchai::plan
