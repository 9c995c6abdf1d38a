// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/execution_log.hpp"

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

ExecutionLog::ExecutionLog(const LogDirectory& logs, std::string traces,
                           std::vector<std::string> nodes)
    : logs_(logs),
      traces_(std::move(traces)),
      nodes_(std::move(nodes)),
      collected_(nodes_.size(), 0) {
    // An earlier attempt's lines are in the logs already.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto trace = base::read_file(fmt::format("{}/{}.log", traces_, nodes_[i]));
        if (trace) collected_[i] = trace->size();
    }
}

void ExecutionLog::append(std::size_t node_index, std::string_view lines) const {
    logs_.append_text(nodes_.size() == 1 ? std::string("execution.log")
                                         : fmt::format("execution-{}.log", nodes_[node_index]),
                      lines);
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
