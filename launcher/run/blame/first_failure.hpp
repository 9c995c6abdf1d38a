// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Which task failed first, and what it said: read from srun's own messages and from the standard
// error of the task that is to blame. Pure.
namespace batchai::run {

struct TaskEnd {
    std::string node;
    int task = 0;
    std::optional<int> signal;
    std::optional<int> exit_code;
    // Killed after the whole step was cancelled, by one of its ranks (PMIx_Abort) or from outside.
    bool victim = false;

    bool operator==(const TaskEnd&) const = default;
};

// The bad ends that srun reported, in the order of its lines (Slurm 22.05: "srun: error: n2: task
// 3: Exited with exit code 7", "… tasks 0-1: Killed"), up to the point where srun ended the step
// on its own account: what ends after that is a victim, not a cause. When the step was cancelled
// before any bad end, those that it killed are marked as victims.
[[nodiscard]] std::vector<TaskEnd> bad_ends(std::string_view srun_messages);

// The line that says what went wrong: the plugin's, why it did not let a task run; the last line of
// the first Python traceback; else the first line that looks like an error, else the last non-empty
// line. At most 400 bytes, no control characters.
[[nodiscard]] std::string first_error_line(std::string_view standard_error);

// True if the rank that wrote this ended the step itself, through mpi_bridge's abort.
[[nodiscard]] bool aborted_the_step(std::string_view standard_error);

// True for a message that only reports another rank's death.
[[nodiscard]] bool blames_a_peer(std::string_view error_line);

}  // namespace batchai::run
