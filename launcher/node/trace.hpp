// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::node {

// This node's name as Slurm has it.
[[nodiscard]] std::string node_name();

// Appends UTC-stamped lines to <job directory>/node/<node>.log, from where `batchai run` takes
// them into the execution log. Best effort: a full disk must not fail the job.
class Trace {
  public:
    explicit Trace(const std::string& job_directory);
    void line(std::string_view text) const;

  private:
    std::string path_;
};

}  // namespace batchai::node
