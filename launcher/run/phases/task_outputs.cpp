// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/task_outputs.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "record/task_reports.hpp"

namespace batchai::run {

std::string file_of_task(std::string pattern, std::string_view task) {
    const std::size_t name = pattern.rfind('/') + 1;
    for (const std::string_view placeholder : {"%N", "%t"}) {
        if (const auto at = pattern.find(placeholder, name); at != std::string::npos)
            return pattern.replace(at, placeholder.size(), task);
    }
    return pattern;
}

std::string by_task(std::string pattern) {
    return file_of_task(std::move(pattern), "%t");
}

std::vector<TaskFile> files_on_nodes(const std::vector<std::string>& nodes,
                                     const std::string& pattern) {
    std::vector<TaskFile> files;
    files.reserve(nodes.size());
    for (const std::string& node : nodes)
        files.push_back({node, file_of_task(pattern, std::to_string(files.size()))});
    return files;
}

void forget_earlier_try(const std::vector<std::string>& nodes,
                        const std::vector<std::string>& patterns,
                        const std::filesystem::path& refusals) {
    for (const std::string& pattern : patterns) {
        for (const TaskFile& file : files_on_nodes(nodes, pattern)) {
            std::error_code ignored;
            std::filesystem::remove(file.path, ignored);
        }
    }
    record::forget_reports(refusals);
}

base::Result<void> TaskOutputs::add(const std::string& pattern, const std::vector<TaskFile>& files,
                                    LineMerger::Noted noted, LineMerger::Seen seen) {
    std::vector<LineMerger::Source> sources;
    std::vector<std::string> tasks;
    for (const TaskFile& file : files) {
        std::string target = file_of_task(pattern, file.task);
        if (sources.empty() || sources.back().target != target) TRY(logs_.append(target));
        sources.push_back({.path = file.path, .target = std::move(target), .own = file.own});
        tasks.push_back(file.task);
    }
    merged_.push_back({.merger = LineMerger(sources, logs_, std::move(noted),
                                            LineMerger::usual_patience, std::move(seen)),
                       .pattern = pattern,
                       .tasks = std::move(tasks)});
    return {};
}

void TaskOutputs::poll() {
    // The caller has signals to pass on, too.
    constexpr std::chrono::milliseconds longest(500);
    const auto until = LineMerger::Clock::now() + longest;
    for (std::size_t i = 0; i < merged_.size(); ++i) {
        if (LineMerger::Clock::now() >= until) break;
        if (!merged_[(next_ + i) % merged_.size()].merger.poll(until))
            continue;  // finish() reports
    }
    if (!merged_.empty()) next_ = (next_ + 1) % merged_.size();
}

bool TaskOutputs::finish(std::string_view whose, ExecutionLog& log) {
    std::string problem;
    for (Merged& each : merged_) {
        if (const auto copied = each.merger.finish(); !copied) problem = copied.error().text();
        const std::vector<std::size_t> truncated = each.merger.truncated();
        if (truncated.empty()) continue;
        log.warn(fmt::format(
            "{}: {} of {}{} was truncated by the program, as \"> /dev/stdout\" does it; what it "
            "printed in the last moments before may be missing (\">> /dev/stdout\" truncates "
            "nothing)",
            whose, file_of_task(each.pattern, each.tasks[truncated.front()]),
            each.tasks[truncated.front()],
            truncated.size() == 1 ? "" : fmt::format(" and {} more", truncated.size() - 1)));
    }
    if (problem.empty()) return true;
    log.warn(fmt::format("{} is not complete in the logs: {}", whose, problem));
    return false;
}

void TaskOutputs::restore_truncated(ExecutionLog& log) const {
    for (const Merged& each : merged_) {
        if (const auto restored = each.merger.restore_truncated(); !restored)
            log.warn(restored.error().text());
    }
}

bool TaskOutputs::finish_again() {
    bool complete = true;
    for (Merged& each : merged_)
        complete = each.merger.finish().has_value() && complete;
    return complete;
}

}  // namespace batchai::run
