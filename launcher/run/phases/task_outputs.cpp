// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/task_outputs.hpp"

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

base::Result<void> TaskOutputs::add(const std::string& pattern,
                                    const std::vector<TaskFile>& files) {
    // Files of the same name in the logs have one merger.
    std::vector<std::pair<std::string, std::vector<std::string>>> targets;
    for (const TaskFile& file : files) {
        std::string target = file_of_task(pattern, file.task);
        if (targets.empty() || targets.back().first != target)
            targets.emplace_back(std::move(target), std::vector<std::string>());
        targets.back().second.push_back(file.path);
    }
    for (auto& [target, sources] : targets) {
        TRY(logs_.append(target));
        mergers_.emplace_back(std::move(sources), logs_, std::move(target));
    }
    return {};
}

void TaskOutputs::poll() {
    for (LineMerger& merger : mergers_) {
        if (!merger.poll()) continue;  // finish() tries again and reports
    }
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
