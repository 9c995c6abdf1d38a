// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/execution_log.hpp"

#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"

namespace batchai::run {

namespace {

std::string stamped(std::string_view text) {
    return fmt::format("{} {}\n", base::to_iso8601(base::now()), text);
}

}  // namespace

ExecutionLog::ExecutionLog(std::string directory, std::string traces,
                           std::vector<std::string> nodes)
    : directory_(std::move(directory)),
      traces_(std::move(traces)),
      nodes_(std::move(nodes)),
      collected_(nodes_.size(), 0) {
    // An earlier attempt's lines are in the logs already.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto trace = base::read_file(fmt::format("{}/{}.log", traces_, nodes_[i]));
        if (trace) collected_[i] = trace->size();
    }
}

std::string ExecutionLog::path(std::size_t node_index) const {
    if (nodes_.size() == 1) return directory_ + "/execution.log";
    return fmt::format("{}/execution-{}.log", directory_, nodes_[node_index]);
}

void ExecutionLog::append(std::size_t node_index, std::string_view lines) const {
    std::ofstream(path(node_index), std::ios::app) << lines;
}

void ExecutionLog::all_nodes(std::string_view text) {
    const std::string line = stamped(text);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        append(i, line);
}

void ExecutionLog::master(std::string_view text) {
    append(0, stamped(text));
}

void ExecutionLog::collect_traces() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto trace = base::read_file(fmt::format("{}/{}.log", traces_, nodes_[i]));
        if (!trace || trace->size() <= collected_[i]) continue;
        append(i, std::string_view(*trace).substr(collected_[i]));
        collected_[i] = trace->size();
    }
}

}  // namespace batchai::run
