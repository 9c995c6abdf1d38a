// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/software.hpp"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "record/task_reports.hpp"

namespace batchai::record {

namespace {

namespace fs = std::filesystem;

// Half of what a node can hand on to a task (BATCHAI_REPLY_LIMIT).
constexpr std::size_t changes_limit = 512UL << 10U;
constexpr std::size_t log_limit = 16UL << 10U;
constexpr std::size_t log_lines = 30;
constexpr std::string_view job_key = "slurmJobId=";

// Functions that are exported have names such as "BASH_FUNC_module%%".
bool is_name(std::string_view name) {
    return !name.empty() && name.size() < 256 &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

base::Environment entries_in(std::string_view text) {
    base::Environment entries;
    for (const std::string_view entry : base::split(text, '\0')) {
        if (!entry.empty()) entries.emplace_back(entry);
    }
    return entries;
}

std::string joined(const base::Environment& entries) {
    std::string text;
    for (const std::string& entry : entries)
        text += entry + '\0';
    return text;
}

std::string value_in(const base::Environment& entries, std::string_view name) {
    for (const std::string& entry : entries) {
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
            return base::printable(std::string_view(entry).substr(name.size() + 1));
    }
    return {};
}

std::vector<std::string> log_of(const fs::path& path, int task) {
    const auto text = base::read_file(task_file(path, task, "log"), 64UL << 20U);
    if (!text) return {};
    std::vector<std::string> lines;
    const std::string_view all = *text;
    for (const std::string_view line :
         base::split(all.substr(all.size() - std::min(all.size(), log_limit)), '\n')) {
        if (!base::trim(line).empty()) lines.push_back(base::printable(base::trim(line)));
    }
    if (lines.size() > log_lines)
        lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(log_lines));
    return lines;
}

Software software_of(const base::Environment& facts) {
    Software out;
    const std::string modules = value_in(facts, "modules");
    for (const std::string_view module : base::split(modules, ':')) {
        if (!module.empty()) out.modules.emplace_back(module);
    }
    out.python = value_in(facts, "python");
    out.python_version = value_in(facts, "pythonVersion");
    out.conda = value_in(facts, "conda");
    out.venv = value_in(facts, "venv");
    out.uv_lock = value_in(facts, "uvLock");
    return out;
}

}  // namespace

std::optional<SoftwareReport> software_report(const fs::path& path, int task) {
    SoftwareReport report;
    report.log = log_of(path, task);
    if (const auto fault = base::read_file(task_file(path, task, "fault"), log_limit);
        fault && !base::trim(*fault).empty()) {
        report.fault = base::printable(base::trim(*fault));
        return report;
    }
    const auto facts = base::read_file(task_file(path, task, "facts"), log_limit);
    if (!facts) return std::nullopt;
    const base::Environment known = entries_in(*facts);
    if (value_in(known, "done").empty()) return std::nullopt;
    const auto text = base::read_file(task_file(path, task, "env"), changes_limit);
    if (!text) {
        report.fault = fmt::format("the variables cannot be read: {}", text.error().what);
        return report;
    }
    report.changes = entries_in(*text);
    for (const std::string& entry : report.changes) {
        const std::string name = entry.substr(0, entry.find('='));
        if (!is_name(name))
            report.fault = fmt::format("\"{}\" is not a name of a variable", base::printable(name));
    }
    report.facts = software_of(known);
    return report;
}

base::Result<void> write_node_software(const JobFiles& files, std::string_view node,
                                       const std::string& slurm_job_id,
                                       const base::Environment& changes) {
    return base::write_atomically(files.node_software(node),
                                  std::string(job_key) + slurm_job_id + '\0' + joined(changes),
                                  0600);
}

base::Result<std::optional<base::Environment>> read_node_software(const JobFiles& files,
                                                                  std::string_view node,
                                                                  const std::string& slurm_job_id) {
    const auto text = base::read_file(files.node_software(node), 2 * changes_limit);
    if (!text && text.error().exit_code == base::ExitCode::not_found)
        return std::optional<base::Environment>();
    if (!text) return tl::unexpected(text.error());
    base::Environment entries = entries_in(*text);
    if (entries.empty() || entries.front() != std::string(job_key) + slurm_job_id)
        return std::optional<base::Environment>();
    entries.erase(entries.begin());
    return std::optional(std::move(entries));
}

void forget_node_software(const JobFiles& files, std::string_view node) {
    std::error_code ignored;
    fs::remove(files.node_software(node), ignored);
}

}  // namespace batchai::record
