// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/software.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "record/task_reports.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/software_script.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

constexpr const char* message = "The software of the job could not be set up";

// The script needs bash, as the tools that it calls do.
constexpr std::string_view run_script =
    R"(if [ ! -x /bin/bash ]; then
  echo "there is no /bin/bash on ${SLURMD_NODENAME:-the node}, which \"software\" needs" > "$1.$SLURM_PROCID.fault"
  exit 1
fi
exec /bin/bash --noprofile --norc -c "$0" batchai-software "$@")";

std::string or_none(const std::string& text) {
    return text.empty() ? "none" : text;
}

std::string list_of(const std::vector<std::string>& modules) {
    return modules.empty() ? "none" : fmt::format("{}", fmt::join(modules, ", "));
}

Ending software_ending(std::string node, std::string why) {
    std::fprintf(stderr, "batchai: %s: %s\n", message, why.c_str());
    return {.failure = {.code = software_failed,
                        .message = message,
                        .phase = std::string(SetUpSoftware::name),
                        .node = std::move(node),
                        .first_error_line = std::move(why)},
            .by = record::EndedBy::preparation};
}

// Returns the first failure that a node has reported.
std::optional<Ending> reported_failure(Context& context, const std::vector<SoftwareOfNode>& nodes) {
    for (const auto& [node, report] : nodes) {
        if (!report || report->fault.empty()) continue;
        for (const std::string& line : report->log)
            context.log.master(fmt::format("{}: {}", node, line));
        return software_ending(node, report->fault);
    }
    return std::nullopt;
}

}  // namespace

base::Arguments software_words(const plan::Software& software,
                               const std::vector<std::string>& secret_names) {
    base::Arguments words;
    const auto add = [&](const char* word, const std::string& value) {
        if (!value.empty()) words.insert(words.end(), {word, value});
    };
    for (const std::string& name : secret_names)
        add("secret", name);
    if (software.purge) add("purge", "all");
    for (const std::string& path : software.module_paths)
        add("module-path", path);
    for (const std::string& module : software.modules)
        add("module", module);
    add("conda-prefix", software.conda_prefix);
    add("conda-name", software.conda_environment);
    add("venv", software.venv);
    add("uv", software.uv_project);
    for (const std::string& extra : software.uv_extras)
        add("uv-extra", extra);
    for (const std::string& group : software.uv_groups)
        add("uv-group", group);
    return words;
}

record::Software software_in_use(const std::vector<SoftwareOfNode>& nodes) {
    record::Software out = nodes.front().report->facts;
    for (const auto& [node, report] : nodes) {
        const record::Software& here = report->facts;
        if (here.modules != out.modules)
            out.remarks.push_back(fmt::format("{}: the modules are {}, on {} they are {}", node,
                                              list_of(here.modules), nodes.front().node,
                                              list_of(out.modules)));
        if (here.python_version != out.python_version)
            out.remarks.push_back(fmt::format("{}: the version of Python is {}, on {} it is {}",
                                              node, or_none(here.python_version),
                                              nodes.front().node, or_none(out.python_version)));
    }
    return out;
}

bool SetUpSoftware::wanted(const Context& context) {
    return context.plan.software.has_value();
}

PhaseEnd SetUpSoftware::run(Context& context) {
    const plan::Software& software = *context.plan.software;
    const auto nodes = context.ready_nodes();
    const auto reports = context.files().software_reports(context.start());
    std::printf("batchai: setting up software on %zu nodes\n", nodes.size());
    std::fflush(stdout);
    context.log.all_nodes("the software of the job is set up");
    record::forget_reports(reports);
    for (const std::string& node : nodes)
        record::forget_node_software(context.files(), node);
    expect_node_failures(context);
    base::Arguments command{"/bin/sh",           "-c",
                            guarded(run_script), std::string(software_script),
                            reports.string(),    context.plan.directories.job_temp,
                            software.python};
    for (std::string& word : software_words(software, context.plan.secret_names))
        command.push_back(std::move(word));
    const auto result = context.steps.run(
        {.arguments = phase_arguments(context.plan,
                                      {.layout = one_task_per_node(static_cast<int>(nodes.size())),
                                       .nodes = context.to_name(nodes),
                                       .command = std::move(command)}),
         .environment = srun_environment(step_environment(context, plan::StepKind::master)),
         .deadline = std::chrono::seconds(software.seconds)});
    context.log.collect_traces();
    std::vector<SoftwareOfNode> of_nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        of_nodes.push_back({nodes[i], record::software_report(reports, static_cast<int>(i))});
    record::forget_reports(reports);
    if (auto ending = reported_failure(context, of_nodes)) return ends_with(std::move(*ending));
    if (!result)
        return ends_with(
            software_ending(nodes.front(), fmt::format("it took longer than {} s (\"software."
                                                       "timeLimit\"): {}",
                                                       software.seconds, result.error().text())));
    if (result->exit_code != 0) {
        if (auto ending = ended_from_outside(context, *result, name))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
        if (auto ending = lost_a_node(*result, name))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
        if (auto ending = node_failure(context, name, false, result->stopped_by))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
    }
    if (auto ending = start_failure(
            *result, {.task = "the setup of the software", .on_each_node = true}, name))
        return {.exit_code = result->exit_code, .ending = std::move(ending)};
    for (const auto& [node, report] : of_nodes) {
        if (!report)
            return ends_with(
                software_ending(node, fmt::format("{} has reported nothing: {}", node,
                                                  or_none(first_error_line(result->messages)))));
        const auto kept = record::write_node_software(context.files(), node, context.granted.job_id,
                                                      report->changes);
        if (!kept) return ends_with(software_ending(node, kept.error().text()));
    }
    PhaseEnd end;
    end.software = software_in_use(of_nodes);
    for (const std::string& remark : end.software->remarks) {
        context.log.master(remark);
        std::printf("batchai: notice: %s\n", remark.c_str());
    }
    std::fflush(stdout);
    context.log.master(fmt::format("modules: {}; Python: {} {}", list_of(end.software->modules),
                                   or_none(end.software->python), end.software->python_version));
    return end;
}

}  // namespace batchai::run
