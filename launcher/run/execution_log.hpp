// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "run/log_directory.hpp"

namespace batchai::run {

// execution.log (one node) or execution-<node>.log (several): what the launcher does on each
// node, in UTC-stamped lines. The master's log also has what concerns the job as a whole.
// Lines are best effort: a full disk must not fail the job.
class ExecutionLog {
  public:
    // `traces` is the directory in which batchai-node leaves <node>.log.
    // `logs` must outlive this object.
    ExecutionLog(const LogDirectory& logs, std::string traces, std::vector<std::string> nodes);

    void all_nodes(std::string_view text);
    void master(std::string_view text);
    // Brings over what batchai-node has traced since the last call.
    void collect_traces();

  private:
    void append(std::size_t node_index, std::string_view lines) const;

    const LogDirectory& logs_;
    std::string traces_;
    std::vector<std::string> nodes_;
    std::vector<std::size_t> collected_;  // bytes per node
};

}  // namespace batchai::run
