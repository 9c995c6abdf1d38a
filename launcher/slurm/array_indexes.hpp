// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/job_outcome.hpp"

// The tasks of array jobs. Pure.
namespace batchai::slurm {

// Returns the numbers in "0-15", "1,3,5-7", "0-99:2%4" or "[1,3]", sorted and each once; nothing if
// the text is something else. Slurm's own limit of such numbers is 4,000,000.
[[nodiscard]] std::optional<std::vector<int>> expand_array_indexes(std::string_view text);

// Returns how many of the tasks may run at the same time: 4 in "0-99:2%4"; nothing if the text has
// no limit.
[[nodiscard]] std::optional<int> tasks_at_once(std::string_view text);

struct TaskCounts {
    int queued = 0;
    int running = 0;
    int terminating = 0;
    int succeeded = 0;
    int failed = 0;

    [[nodiscard]] int total() const { return queued + running + terminating + succeeded + failed; }
    void add(ExecutionState state);
    bool operator==(const TaskCounts&) const = default;
};

// Returns the state of an array job. As long as a task has not ended, this is `queued` if no task
// has started, `terminating` if a task is terminating, and otherwise `running`. After that it is
// `failed` if a task has failed, and otherwise `succeeded`.
[[nodiscard]] ExecutionState combined_state(const TaskCounts& counts);

}  // namespace batchai::slurm
