// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace batchai::run {

// execution.log (one node) or execution-<node>.log (several): the trace of our own doings per
// node, UTC-stamped lines. The master's log also has what concerns the job as a whole.
// Lines are best effort: a full disk must not fail the job.
class ExecutionLog {
  public:
    // `traces` is the directory in which batchai-node leaves <node>.log.
    ExecutionLog(std::string directory, std::string traces, std::vector<std::string> nodes);

    void all_nodes(std::string_view text);
    void master(std::string_view text);
    // Brings over what batchai-node has traced since the last call.
    void collect_traces();

    [[nodiscard]] std::string path(std::size_t node_index) const;

  private:
    void append(std::size_t node_index, std::string_view lines) const;

    std::string directory_;
    std::string traces_;
    std::vector<std::string> nodes_;
    std::vector<std::size_t> collected_;  // bytes per node
};

}  // namespace batchai::run
