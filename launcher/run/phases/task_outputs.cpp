// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/task_outputs.hpp"

#include <chrono>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace batchai::run {

std::string file_of_task(std::string pattern, std::string_view task) {
    for (const std::string_view placeholder : {"%N", "%t"}) {
        if (const auto at = pattern.find(placeholder); at != std::string::npos)
            return pattern.replace(at, placeholder.size(), task);
    }
    return pattern;
}

base::Result<void> TaskOutputs::add(const std::string& pattern, const std::vector<TaskFile>& files,
                                    LineMerger::Noted noted) {
    std::vector<LineMerger::Source> sources;
    for (const TaskFile& file : files) {
        std::string target = file_of_task(pattern, file.task);
        if (sources.empty() || sources.back().target != target) TRY(logs_.append(target));
        sources.push_back({.path = file.path, .target = std::move(target), .own = file.own});
    }
    mergers_.emplace_back(sources, logs_, std::move(noted));
    return {};
}

void TaskOutputs::poll() {
    // The caller has signals to pass on, too.
    constexpr std::chrono::milliseconds longest(500);
    const auto until = LineMerger::Clock::now() + longest;
    for (std::size_t i = 0; i < mergers_.size(); ++i) {
        if (LineMerger::Clock::now() >= until) break;
        if (!mergers_[(next_ + i) % mergers_.size()].poll(until)) continue;  // finish() reports
    }
    if (!mergers_.empty()) next_ = (next_ + 1) % mergers_.size();
}

bool TaskOutputs::finish(std::string_view whose) {
    std::string problem;
    for (LineMerger& merger : mergers_) {
        if (const auto copied = merger.finish(); !copied) problem = copied.error().text();
    }
    if (problem.empty()) return true;
    std::fprintf(stderr, "%s\n", fmt::format("batchai: warning: {}: {}", whose, problem).c_str());
    return false;
}

}  // namespace batchai::run
