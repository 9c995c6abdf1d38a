// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/first_failure.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>

#include "base/text.hpp"

namespace batchai::run {

namespace {

using base::split;
using base::trim;

std::optional<int> number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// "3", "0-1", "0,2-3" → the task numbers.
std::vector<int> task_numbers(std::string_view text) {
    std::vector<int> tasks;
    for (const std::string_view range : split(text, ',')) {
        const auto ends = split(range, '-');
        const auto first = number(ends.front());
        const auto last = number(ends.back());
        if (!first || !last || *last - *first > 1000000) return {};
        for (int task = *first; task <= *last; ++task)
            tasks.push_back(task);
    }
    return tasks;
}

std::optional<int> signal_number(std::string_view name) {
    for (int candidate = 1; candidate < SIGRTMIN; ++candidate) {
        const char* text = strsignal(candidate);
        if (text != nullptr && name == text) return candidate;
    }
    if (name == "Out Of Memory") return SIGKILL;
    return std::nullopt;
}

// The part after "task 3: ".
void read_reason(std::string_view reason, TaskEnd& end) {
    constexpr std::string_view exited = "Exited with exit code ";
    constexpr std::string_view dumped = " (core dumped)";
    if (reason.ends_with(dumped)) reason.remove_suffix(dumped.size());
    if (reason.starts_with(exited)) {
        end.exit_code = number(trim(reason.substr(exited.size())));
    } else {
        end.signal = signal_number(trim(reason));
    }
}

bool killed(const TaskEnd& end) {
    const int code = end.signal ? 128 + *end.signal : end.exit_code.value_or(0);
    return code == 128 + SIGKILL || code == 128 + SIGTERM;
}

void read_line(std::string_view line, std::vector<TaskEnd>& ends) {
    constexpr std::string_view prefix = "srun: error: ";
    if (!line.starts_with(prefix)) return;
    line.remove_prefix(prefix.size());
    const std::size_t node_end = line.find(": ");
    if (node_end == std::string_view::npos) return;
    const std::string node(line.substr(0, node_end));
    line.remove_prefix(node_end + 2);
    if (!line.starts_with("task")) return;
    const std::size_t tasks_begin = line.find(' ');
    const std::size_t tasks_end = line.find(": ");
    if (tasks_begin == std::string_view::npos || tasks_end == std::string_view::npos ||
        tasks_end < tasks_begin)
        return;
    for (const int task : task_numbers(line.substr(tasks_begin + 1, tasks_end - tasks_begin - 1))) {
        TaskEnd end{node, task, {}, {}};
        read_reason(line.substr(tasks_end + 2), end);
        if (end.signal || end.exit_code) ends.push_back(std::move(end));
    }
}

bool looks_like_an_error(std::string_view line) {
    static constexpr std::array<std::string_view, 14> words{
        "error",     "exception", "traceback",    "fatal",           "abort",
        "assert",    "failed",    "cannot",       "can't",           "no such",
        "not found", "denied",    "segmentation", "undefined symbol"};
    const std::string low = base::lower(line);
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return low.find(word) != std::string::npos; });
}

std::string presentable(std::string_view line) {
    std::string out;
    for (const char c : trim(line)) {
        if (out.size() == 400) break;
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
    return out;
}

// The index of the line that ends the traceback that starts at `begin`: the first one after it
// that is not indented.
std::size_t traceback_end(const std::vector<std::string_view>& lines, std::size_t begin) {
    std::size_t i = begin + 1;
    while (i < lines.size() && (lines[i].empty() || lines[i].front() == ' '))
        ++i;
    return i;
}

}  // namespace

std::vector<TaskEnd> bad_ends(std::string_view srun_messages) {
    std::vector<TaskEnd> ends;
    bool cancelled = false;
    for (const std::string_view line : split(srun_messages, '\n')) {
        const bool ended_by_srun = line.find("Job step aborted") != std::string_view::npos ||
                                   line.find("Terminating StepId") != std::string_view::npos ||
                                   line.find("Terminating job step") != std::string_view::npos;
        if (ended_by_srun &&
            std::any_of(ends.begin(), ends.end(), [](const TaskEnd& end) { return !end.victim; }))
            break;
        // Before any bad end the notice says that a rank or somebody outside ended the whole step.
        cancelled = cancelled || ended_by_srun || line.find("CANCELLED AT") != line.npos;
        const std::size_t known = ends.size();
        read_line(line, ends);
        for (std::size_t i = known; i < ends.size(); ++i)
            ends[i].victim = cancelled && killed(ends[i]);
    }
    return ends;
}

std::string first_error_line(std::string_view standard_error) {
    const auto lines = split(standard_error, '\n');
    std::size_t last_text = lines.size();
    std::size_t first_error = lines.size();
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (trim(lines[i]).empty()) continue;
        last_text = i;
        if (lines[i].starts_with("Traceback (most recent call last)")) {
            const std::size_t end = traceback_end(lines, i);
            if (end < lines.size()) return presentable(lines[end]);
        }
        // The plugin's, of a task that it did not let run.
        if (lines[i].starts_with("batchai: node ") && lines[i].find(": warning: ") == lines[i].npos)
            return presentable(lines[i]);
        if (first_error == lines.size() && looks_like_an_error(lines[i])) first_error = i;
    }
    if (first_error < lines.size()) return presentable(lines[first_error]);
    return last_text < lines.size() ? presentable(lines[last_text]) : std::string();
}

bool aborted_the_step(std::string_view standard_error) {
    const auto lines = split(standard_error, '\n');
    return std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
        return line.starts_with("mpi_bridge: rank ") && line.find(" aborted: ") != line.npos;
    });
}

bool blames_a_peer(std::string_view error_line) {
    const std::string low = base::lower(error_line);
    return low.find("lost rank ") != std::string::npos ||
           low.find("lost peer") != std::string::npos ||
           low.find("peer lost") != std::string::npos ||
           low.find("connection reset") != std::string::npos ||
           low.find("lost connection") != std::string::npos;
}

}  // namespace batchai::run
