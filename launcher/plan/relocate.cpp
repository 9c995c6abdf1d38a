// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/relocate.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "record/job_files.hpp"

namespace batchai::plan {

namespace {

struct Replacement {
    std::string of;
    std::string by;
};

// Every text to be replaced contains the job's UUID or its first digits. It can therefore be
// replaced inside longer texts too, such as the values of variables, and nothing else matches by
// chance.
void replace(std::string& text, const std::vector<Replacement>& replacements) {
    for (const auto& [of, by] : replacements) {
        if (of.empty()) continue;
        for (auto at = text.find(of); at != std::string::npos; at = text.find(of, at + by.size()))
            text.replace(at, of.size(), by);
    }
}

std::vector<Replacement> replacements_for(const Plan& plan, int task, const SweepPoint& point) {
    const Directories& shared = plan.directories;
    const std::string job_directory =
        record::JobFiles(shared.job_directory).array_task(task).directory().string();
    std::vector<Replacement> out{
        {shared.job_directory, job_directory},
        {shared.job_temp, fmt::format("{}.{}", shared.job_temp, task)},
        {plan.identity.path_segment(),
         fmt::format("{}/task-{}", plan.identity.path_segment(), task)},
        // All tasks run from one snapshot.
        {record::JobFiles(job_directory).snapshot().string(),
         record::JobFiles(shared.plan_directory).snapshot().string()},
    };
    if (!plan.sweep) return out;
    const std::string& uuid = plan.identity.uuid;
    out.push_back({sweep_placeholder(uuid, {}), std::to_string(task)});
    for (std::size_t i = 0; i < point.size() && i < plan.sweep->parameters.size(); ++i)
        out.push_back({sweep_placeholder(uuid, plan.sweep->parameters[i]), point[i]});
    return out;
}

}  // namespace

Plan of_array_task(const Plan& plan, int task, const SweepPoint& point) {
    const auto replacements = replacements_for(plan, task, point);
    Plan out = plan;
    Directories& directories = out.directories;
    for (std::string* path :
         {&directories.job_temp, &directories.mount_root, &directories.job_mount_root,
          &directories.job_directory, &directories.shared_job_temp, &directories.stdouterr,
          &directories.stdouterr_host})
        replace(*path, replacements);
    for (OutputDirectory& output : out.outputs) {
        replace(output.path, replacements);
        replace(output.path_host, replacements);
    }
    if (out.software) {
        Software& software = *out.software;
        for (std::string* path :
             {&software.conda_prefix, &software.venv, &software.uv_project, &software.python})
            replace(*path, replacements);
        for (std::string& path : software.module_paths)
            replace(path, replacements);
    }
    for (Variable& variable : out.environment)
        replace(variable.value, replacements);
    if (out.retry) replace(out.retry->progress_directory, replacements);
    // The planner has expanded the paths in the commands that it makes of a toolkit's settings.
    if (out.node_setup) replace(out.node_setup->command, replacements);
    for (Step& step : out.steps)
        replace(step.command, replacements);
    return out;
}

std::optional<int> array_task_number(std::string_view text) {
    const auto number = base::number_in<int>(text);
    return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace batchai::plan
