// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace batchai::node {

// What the step's cgroup says, if Slurm makes one here. It knows more than /proc: pages that
// processes share count once, and so does the time of processes for which nobody has waited.
struct CgroupUse {
    std::optional<double> cpu_seconds;
    std::optional<std::int64_t> memory;  // bytes, without the cache of files
    std::optional<std::int64_t> limit;   // bytes that Slurm allows; none: as much as there is
    bool ran_out = false;  // the kernel has killed a process of the step for the limit
};

class StepCgroup {
  public:
    // `text` is /proc/<pid>/cgroup of a task. `mount` is where cgroups are mounted.
    [[nodiscard]] static StepCgroup find(std::string_view text, const std::string& job_id,
                                         const std::string& mount = "/sys/fs/cgroup");

    [[nodiscard]] CgroupUse read() const;

  private:
    // Directories; empty if there is none.
    std::string cpu_;
    std::string memory_;
    bool unified_ = false;  // version 2
};

}  // namespace batchai::node
