// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/parse.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

#include "base/text.hpp"
#include "slurm/array_indexes.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::slurm {

// ":|" asks for a field of any width, followed by "|". A node's reason may contain "|", so it is
// last.
const std::string_view kQueueFormat =
    "JobID:|,State:|,Reason:|,Partition:|,UserName:|,exit_code:|,SubmitTime:|,EligibleTime:|,"
    "StartTime:|,EndTime:|,RestartCnt:|,NodeList:|,ArrayJobID:|,ArrayTaskID:|";
const std::string_view kScriptFormat = "%F %T %o";
const std::string_view kAccountingFormat =
    "JobIDRaw,State,Reason,Partition,User,ExitCode,Submit,Eligible,Start,End,NodeList,JobID";
const std::string_view kNodeFormat =
    "NodeList:|,StateComplete:|,CPUs:|,Gres:|,Partition:|,Features:|,Reason:|";
const std::string_view kDaemonFormat = "NodeList:|,NodeAddr:|,Port:|";

namespace {

using base::Result;

tl::unexpected<base::Error> unreadable(std::string_view command, std::string_view line) {
    return base::fail(fmt::format("cannot read the line \"{}\"", line.substr(0, 200)),
                      std::string(command), "is this Slurm older than 22.05?");
}

std::string without_none(std::string_view text) {
    const std::string_view word = base::trim(text);
    if (word == "None" || word == "none" || word == "(null)" || word == "None assigned") return {};
    return std::string(word);
}

// Returns nothing for "Unknown", "N/A" and "None", which are not times.
std::optional<base::Time> time_of(std::string_view text) {
    return base::from_iso8601(base::trim(text));
}

// Reads "7:0" (code:signal), or squeue's raw wait status such as "1792".
bool read_exit(std::string_view text, JobStatus& job) {
    const std::size_t colon = text.find(':');
    auto code = base::number_in<int>(text.substr(0, colon));
    auto signal = colon == std::string_view::npos ? std::optional<int>(0)
                                                  : base::number_in<int>(text.substr(colon + 1));
    if (!code || !signal) return false;
    if (colon == std::string_view::npos) {
        const int status = *code;
        code = WEXITSTATUS(status);
        signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    if (!is_final(job.state)) return true;
    job.exit_code = *code;
    if (*signal != 0) job.signal = *signal;
    return true;
}

struct JobFields {
    std::string_view id, state, reason, partition, user, exit, submit, eligible, start, end,
        restarts, nodes, array_id, array_tasks;
};

Result<JobStatus> job_of(std::string_view command, std::string_view line, const JobFields& fields) {
    JobStatus job;
    job.id = std::string(base::trim(fields.id));
    job.state_text = std::string(base::trim(fields.state));
    job.state = job_state(job.state_text);
    job.reason = without_none(fields.reason);
    job.partition = std::string(base::trim(fields.partition));
    job.user = std::string(base::trim(fields.user));
    const auto restarts = base::number_in<int>(base::trim(fields.restarts));
    if (job.id.empty() || job.state_text.empty() || !restarts ||
        !read_exit(base::trim(fields.exit), job))
        return unreadable(command, line);
    job.restart_count = *restarts;
    job.submit = time_of(fields.submit);
    job.eligible = time_of(fields.eligible);
    job.start = time_of(fields.start);
    job.end = time_of(fields.end);
    auto nodes = expand_hostlist(without_none(fields.nodes));
    if (!nodes) return unreadable(command, line);
    job.nodes = std::move(*nodes);
    // Other jobs have "N/A" here.
    if (auto tasks = expand_array_indexes(base::trim(fields.array_tasks))) {
        job.array_id = std::string(base::trim(fields.array_id));
        job.array_tasks = std::move(*tasks);
    }
    return job;
}

using Fields = std::vector<std::string_view>;

// Splits a line at each "|". The text of a reason may contain "|" too, so surplus parts belong to
// field `open`. Returns the fields and the whole text of field `open`.
std::optional<std::pair<Fields, std::string>> fields_of(std::string_view line, std::size_t count,
                                                        std::size_t open) {
    Fields parts = base::split(line, '|');
    if (parts.size() < count) return std::nullopt;
    const std::size_t extra = parts.size() - count;
    std::string joined(parts[open]);
    for (std::size_t i = 1; i <= extra; ++i)
        joined += fmt::format("|{}", parts[open + i]);
    const auto from = parts.begin() + static_cast<std::ptrdiff_t>(open) + 1;
    parts.erase(from, from + static_cast<std::ptrdiff_t>(extra));
    return std::pair{std::move(parts), std::move(joined)};
}

const std::array<std::pair<std::string_view, NodeBaseState>, 7> base_states{{
    {"unknown", NodeBaseState::unknown},
    {"down", NodeBaseState::down},
    {"idle", NodeBaseState::idle},
    {"allocated", NodeBaseState::allocated},
    {"mixed", NodeBaseState::mixed},
    {"error", NodeBaseState::error},
    {"future", NodeBaseState::future},
}};

// The names of the flags in several releases of Slurm.
const std::array<std::pair<std::string_view, NodeFlag>, 21> node_flags{{
    {"blocked", NodeFlag::blocked},
    {"completing", NodeFlag::completing},
    {"drain", NodeFlag::drain},
    {"fail", NodeFlag::fail},
    {"invalid_reg", NodeFlag::invalid_registration},
    {"inval", NodeFlag::invalid_registration},
    {"maintenance", NodeFlag::maintenance},
    {"maint", NodeFlag::maintenance},
    {"not_responding", NodeFlag::not_responding},
    {"no_respond", NodeFlag::not_responding},
    {"planned", NodeFlag::planned},
    {"power_down", NodeFlag::power_down},
    {"powered_down", NodeFlag::powered_down},
    {"powering_down", NodeFlag::powering_down},
    {"powering_up", NodeFlag::powering_up},
    {"configuring", NodeFlag::powering_up},
    {"power_up", NodeFlag::powering_up},
    {"reboot_issued", NodeFlag::reboot_issued},
    {"reboot_requested", NodeFlag::reboot_requested},
    {"reboot", NodeFlag::reboot_requested},
    {"reserved", NodeFlag::reserved},
}};

void read_state(std::string_view text, NodeStatus& node) {
    node.state_text = std::string(text);
    const std::string lowered = base::lower(text);
    auto words = base::split(lowered, '+');
    std::string_view first = words.front();
    // Other formats mark such a node with the suffix "*" instead of the flag.
    if (first.ends_with('*')) {
        node.flags.insert(NodeFlag::not_responding);
        first.remove_suffix(1);
    }
    for (const auto& [name, state] : base_states)
        if (first == name) node.state = state;
    for (const std::string_view word : std::vector(words.begin() + 1, words.end())) {
        const auto* found = std::find_if(node_flags.begin(), node_flags.end(),
                                         [&](const auto& entry) { return entry.first == word; });
        node.flags.insert(found == node_flags.end() ? NodeFlag::other : found->second);
    }
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    const std::string list = without_none(text);
    for (const std::string_view word : base::split(list, ','))
        if (!word.empty()) words.emplace_back(word);
    return words;
}

// Calls `take` for each line that is not blank, until `take` fails.
template <typename Take>
Result<void> each_line(std::string_view text, Take take) {
    for (const std::string_view raw : base::split(text, '\n')) {
        const std::string_view line = base::trim(raw);
        if (line.empty()) continue;
        if (Result<void> taken = take(line); !taken) return taken;
    }
    return {};
}

}  // namespace

Result<std::map<std::string, JobStatus>> parse_queue(std::string_view text) {
    std::map<std::string, JobStatus> jobs;
    const auto read = each_line(text, [&](std::string_view line) -> Result<void> {
        // There are 14 fields, and an empty part after the last separator.
        const auto fields = fields_of(line, 15, 2);
        if (!fields) return unreadable("squeue", line);
        const Fields& f = fields->first;
        auto job = TRY(job_of("squeue", line,
                              {f[0], f[1], fields->second, f[3], f[4], f[5], f[6], f[7], f[8], f[9],
                               f[10], f[11], f[12], f[13]}));
        jobs.insert_or_assign(job.id, job);
        return {};
    });
    TRY(read);
    return jobs;
}

Result<std::vector<ScriptJob>> parse_script_jobs(std::string_view text, std::string_view script) {
    std::vector<ScriptJob> jobs;
    for (const std::string_view line : base::split(text, '\n')) {
        if (base::trim(line).empty()) continue;
        const std::size_t first = line.find(' ');
        const std::size_t second = line.find(' ', std::min(first, line.size() - 1) + 1);
        const std::string_view id = line.substr(0, first);
        if (second == std::string_view::npos || !is_job_id(id)) return unreadable("squeue", line);
        if (line.substr(second + 1) != script) continue;
        const bool waits = line.substr(first + 1, second - first - 1) == "PENDING";
        const auto same = std::find_if(jobs.begin(), jobs.end(),
                                       [&](const ScriptJob& job) { return job.id == id; });
        if (same == jobs.end())
            jobs.push_back({.id = std::string(id), .waits = waits});
        else
            same->waits = same->waits && waits;
    }
    return jobs;
}

Result<std::map<std::string, JobStatus>> parse_accounting(std::string_view text) {
    std::map<std::string, JobStatus> jobs;
    const auto read = each_line(text, [&](std::string_view line) -> Result<void> {
        const auto fields = fields_of(line, 12, 2);
        if (!fields) return unreadable("sacct", line);
        const Fields& f = fields->first;
        // "12_3" or "12_[3-7]" for tasks of an array.
        const std::string_view name = base::trim(f[11]);
        const std::size_t mark = std::min(name.find('_'), name.size());
        auto job = TRY(
            job_of("sacct", line,
                   {f[0], f[1], fields->second, f[3], f[4], f[5], f[6], f[7], f[8], f[9], "0",
                    f[10], name.substr(0, mark), name.substr(std::min(mark + 1, name.size()))}));
        job.from_accounting = true;
        const auto before = jobs.find(job.id);
        // Each incarnation after the first is one more restart.
        if (before != jobs.end()) {
            const int restarts = before->second.restart_count + 1;
            if (before->second.submit > job.submit) job = before->second;
            job.restart_count = restarts;
        }
        jobs.insert_or_assign(job.id, job);
        return {};
    });
    TRY(read);
    return jobs;
}

Result<std::vector<NodeStatus>> parse_nodes(std::string_view text) {
    std::map<std::string, NodeStatus, std::less<>> nodes;
    const auto read = each_line(text, [&](std::string_view line) -> Result<void> {
        const auto fields = fields_of(line, 8, 6);
        if (!fields) return unreadable("sinfo", line);
        const Fields& f = fields->first;
        const auto cpus = base::number_in<int>(base::trim(f[2]));
        if (f[0].empty() || f[1].empty() || !cpus) return unreadable("sinfo", line);
        NodeStatus& node = nodes[std::string(f[0])];
        std::string_view partition = f[4];
        // "*" marks the default partition.
        const bool is_default = partition.ends_with('*');
        if (is_default) partition.remove_suffix(1);
        node.partitions.emplace(is_default ? node.partitions.begin() : node.partitions.end(),
                                partition);
        if (!node.name.empty()) return {};
        node.name = std::string(f[0]);
        read_state(f[1], node);
        node.cpus = *cpus;
        node.gres = without_none(f[3]);
        node.features = words_of(f[5]);
        node.reason = without_none(fields->second);
        return {};
    });
    TRY(read);
    std::vector<NodeStatus> sorted;
    sorted.reserve(nodes.size());
    for (auto& [name, node] : nodes)
        sorted.push_back(std::move(node));
    return sorted;
}

Result<std::map<std::string, base::Endpoint>> parse_daemons(std::string_view text) {
    std::map<std::string, base::Endpoint> daemons;
    const auto read = each_line(text, [&](std::string_view line) -> Result<void> {
        const auto fields = base::split(line, '|');
        const auto port =
            fields.size() >= 3 ? base::number_in<int>(base::trim(fields[2])) : std::nullopt;
        if (!port || fields[0].empty() || fields[1].empty()) return unreadable("sinfo", line);
        daemons[std::string(base::trim(fields[0]))] = {
            .address = std::string(base::trim(fields[1])), .port = *port};
        return {};
    });
    TRY(read);
    return daemons;
}

Result<JobId> parse_submitted(std::string_view text) {
    const auto lines = base::split(base::trim(text), '\n');
    const std::string_view last = base::trim(lines.back());
    const std::string_view id = last.substr(0, last.find(';'));
    if (!is_job_id(id)) return unreadable("sbatch", last);
    return JobId::parse(id);
}

Result<std::map<std::string, std::string, std::less<>>> parse_configuration(std::string_view text) {
    std::map<std::string, std::string, std::less<>> configuration;
    for (const std::string_view line : base::split(text, '\n')) {
        const std::size_t sign = line.find('=');
        if (sign == std::string_view::npos) continue;
        configuration.emplace(base::trim(line.substr(0, sign)), base::trim(line.substr(sign + 1)));
    }
    if (configuration.empty())
        return base::fail("prints no line with a key and a value", "scontrol show config");
    return configuration;
}

Result<std::vector<std::string>> parse_mpi_types(std::string_view text) {
    std::vector<std::string> names;
    bool in_list = false;
    for (const std::string_view whole : base::split(text, '\n')) {
        std::string_view line = base::trim(whole);
        // Before 23.02 each line begins with the program's name, as in "srun: pmix".
        if (line.starts_with("srun: ")) line = base::trim(line.substr(6));
        if (line.ends_with("are...") || line.ends_with("are:")) {
            in_list = true;
        } else if (in_list && line.starts_with("specific pmix plugin versions available:")) {
            for (const auto name : base::split(line.substr(line.find(':') + 1), ','))
                names.emplace_back(base::trim(name));
        } else if (in_list && !line.empty() && line.find(' ') == std::string_view::npos) {
            names.emplace_back(line);
        }
    }
    if (!in_list) return base::fail("prints no list", "srun --mpi=list");
    return names;
}

std::optional<std::string> step_with_srun(std::string_view text, std::string_view host,
                                          int process) {
    constexpr std::string_view first_key = "StepId=";
    constexpr std::string_view srun_key = " SrunHost:Pid=";
    const std::string wanted = fmt::format("{}:{}", host.substr(0, host.find('.')), process);
    for (const std::string_view line : base::split(text, '\n')) {
        // A step's name, which is the user's, comes before this key.
        const std::size_t at = line.rfind(srun_key);
        if (!line.starts_with(first_key) || at == std::string_view::npos) continue;
        const std::string_view value = line.substr(at + srun_key.size());
        if (value.substr(0, value.find(' ')) != wanted) continue;
        return std::string(line.substr(first_key.size(), line.find(' ') - first_key.size()));
    }
    return std::nullopt;
}

}  // namespace batchai::slurm
