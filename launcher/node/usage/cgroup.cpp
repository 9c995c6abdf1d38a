// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/cgroup.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t longest_file = 64UL << 10U;

// Returns whether a cgroup is called like a job by Slurm's own identifiers (SLUID), as they are
// from 26.05 on unless CgroupJobIdPaths=yes: an "s" and 13 digits of base 32, such as
// "s7XKQ2M04WG000". They say nothing of the number of the job.
bool is_sluid(std::string_view name) {
    return name.size() == 14 && name.front() == 's' &&
           std::all_of(name.begin() + 1, name.end(),
                       [](char c) { return base::is_digit(c) || (c >= 'A' && c <= 'Z'); });
}

// Returns the part of a path like "/slurm/uid_1001/job_12/step_0/task_0" that is the step's; empty
// if it is not in a cgroup that Slurm has made for a step of the job. Version 2 has a cgroup for
// the tasks below that of the step.
std::string path_of_step(std::string_view path, const std::string& job_id) {
    constexpr std::string_view of_step = "/step_";
    const std::size_t found = path.find(of_step);
    if (found == std::string_view::npos || path.find("..") != std::string_view::npos) return {};
    const std::size_t above = path.rfind('/', found - 1);
    if (found == 0 || above == std::string_view::npos) return {};
    const std::string_view job = path.substr(above + 1, found - above - 1);
    if (job != "job_" + job_id && !is_sluid(job)) return {};
    std::size_t end = std::min(path.find('/', found + of_step.size()), path.size());
    constexpr std::string_view of_tasks = "/user";
    const std::string_view rest = path.substr(end);
    if (rest == of_tasks || rest.starts_with("/user/")) end += of_tasks.size();
    return std::string(path.substr(0, end));
}

std::optional<std::int64_t> number_in_file(const std::string& path) {
    const auto text = base::read_file(path, longest_file);
    if (!text) return std::nullopt;
    return base::number_in<std::int64_t>(base::trim(*text));
}

// Reads "key number" lines.
std::optional<std::int64_t> number_of_key(const std::string& path, std::string_view key) {
    const auto text = base::read_file(path, longest_file);
    if (!text) return std::nullopt;
    for (const std::string_view line : base::split(*text, '\n')) {
        if (line.starts_with(key) && line.substr(key.size()).starts_with(' '))
            return base::number_in<std::int64_t>(base::trim(line.substr(key.size())));
    }
    return std::nullopt;
}

std::string existing(const std::string& directory, const char* file) {
    std::error_code error;
    return std::filesystem::exists(directory + "/" + file, error) ? directory : std::string();
}

// Version 1 says "no limit" with a number near the greatest one.
constexpr std::int64_t unlimited = std::int64_t{1} << 60U;

// Version 1 counts in the cgroup of the process, which is that of a task below the step's.
bool has_killed_in(const std::string& directory) {
    const auto killed = [](const std::string& of) {
        return number_of_key(of + "/memory.oom_control", "oom_kill").value_or(0) > 0;
    };
    if (killed(directory)) return true;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
        if (entry->is_directory(error) && killed(entry->path().string())) return true;
    }
    return false;
}

// In version 2 the limit is that of the step, above the cgroup of its tasks.
std::optional<std::int64_t> limit_of_version_2(const std::string& directory) {
    const auto limit = number_in_file(directory + "/memory.max");
    return limit ? limit : number_in_file(directory + "/../memory.max");
}

}  // namespace

StepCgroup StepCgroup::find(std::string_view text, const std::string& job_id,
                            const std::string& mount) {
    StepCgroup out;
    for (const std::string_view line : base::split(text, '\n')) {
        // "4:memory:/slurm/…" or, in version 2, "0::/system.slice/…".
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string_view::npos || second == std::string_view::npos) continue;
        const std::string path = path_of_step(line.substr(second + 1), job_id);
        if (path.empty()) continue;
        const std::string_view names = line.substr(first + 1, second - first - 1);
        const auto controllers = base::split(names, ',');
        const auto has = [&](std::string_view name) {
            return std::find(controllers.begin(), controllers.end(), name) != controllers.end();
        };
        if (names.empty() && out.memory_.empty()) {
            out.cpu_ = existing(mount + path, "cpu.stat");
            out.memory_ = existing(mount + path, "memory.current");
            out.unified_ = !out.cpu_.empty() || !out.memory_.empty();
        }
        if (out.unified_) continue;
        if (has("cpuacct"))
            out.cpu_ = existing(fmt::format("{}/cpuacct{}", mount, path), "cpuacct.usage");
        if (has("memory"))
            out.memory_ =
                existing(fmt::format("{}/memory{}", mount, path), "memory.usage_in_bytes");
    }
    return out;
}

CgroupUse StepCgroup::read() const {
    CgroupUse use;
    if (!cpu_.empty()) {
        const auto time = unified_ ? number_of_key(cpu_ + "/cpu.stat", "usage_usec")
                                   : number_in_file(cpu_ + "/cpuacct.usage");
        if (time) use.cpu_seconds = static_cast<double>(*time) / (unified_ ? 1e6 : 1e9);
    }
    if (memory_.empty()) return use;
    const std::string stat = memory_ + "/memory.stat";
    const std::string before = unified_ ? "" : "total_";
    use.memory =
        number_in_file(memory_ + (unified_ ? "/memory.current" : "/memory.usage_in_bytes"));
    if (use.memory) {
        const auto cached = number_of_key(stat, before + "active_file").value_or(0) +
                            number_of_key(stat, before + "inactive_file").value_or(0);
        use.memory = std::max<std::int64_t>(*use.memory - cached, 0);
    }
    use.limit =
        unified_ ? limit_of_version_2(memory_) : number_in_file(memory_ + "/memory.limit_in_bytes");
    if (use.limit && *use.limit >= unlimited) use.limit.reset();
    use.ran_out = unified_ ? number_of_key(memory_ + "/memory.events", "oom_kill").value_or(0) > 0
                           : has_killed_in(memory_);
    return use;
}

}  // namespace batchai::node
