// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/relocate.hpp"

#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/record.hpp"
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

bool may_be_in_name(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.' ||
           letter == '_' || letter == '-';
}

// Returns `text` with `to` in place of `from` in each path that is `from` or below it. Unlike the
// directories of a job, this one can be a part of the name of another.
std::string with_other_root(const std::string& text, const std::string& from,
                            const std::string& to) {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
        const std::size_t end = at + from.size();
        const bool begins = at == 0 || !(may_be_in_name(text[at - 1]) || text[at - 1] == '/');
        const bool ends = end == text.size() || !may_be_in_name(text[end]);
        if (at < done || !begins || !ends) continue;
        out.append(text, done, at - done).append(to);
        done = end;
    }
    return out.append(text, done);
}

}  // namespace

Plan of_array_task(Plan plan, int task, const SweepPoint& point) {
    const auto replacements = replacements_for(plan, task, point);
    // All tasks share the frozen plan and what lies beside it.
    std::string plan_directory = plan.directories.plan_directory;
    base::each_text(plan, [&](std::string& text) { replace(text, replacements); });
    plan.directories.plan_directory = std::move(plan_directory);
    return plan;
}

std::optional<int> array_task_number(std::string_view text) {
    const auto number = base::number_in<int>(text);
    return number && *number >= 0 ? number : std::nullopt;
}

Plan with_node_root(Plan plan, const std::string& node_root) {
    const std::string planned = plan.directories.node_root;
    base::each_text(plan,
                    [&](std::string& text) { text = with_other_root(text, planned, node_root); });
    return plan;
}

}  // namespace batchai::plan
