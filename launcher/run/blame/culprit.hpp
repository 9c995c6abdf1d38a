// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/attempt.hpp"
#include "run/blame/slurm_words.hpp"

namespace batchai::run {

// The line that says what went wrong: the plugin's, why it did not let a task run; the last line of
// the first Python traceback; else the first line that looks like an error, else the last non-empty
// line. At most 400 bytes, no control characters.
[[nodiscard]] std::string first_error_line(std::string_view standard_error);

// True if the rank that wrote this ended the step itself, through mpi_bridge's abort.
[[nodiscard]] bool aborted_the_step(std::string_view standard_error);

// True for a message that only reports another rank's death.
[[nodiscard]] bool blames_a_peer(std::string_view error_line);

// The end of the task that is to blame, and the first error line of its standard error: a signal
// comes before an exit code, a cause before a report of somebody else's death, the earlier before
// the later. A victim is to blame only if it ended the step itself; how it was killed then says
// nothing. `error_files` has a file for each task.
[[nodiscard]] std::optional<std::pair<TaskEnd, std::string>> culprit(
    const std::vector<TaskEnd>& ends, const std::vector<std::string>& error_files);

// As a shell says it.
[[nodiscard]] int exit_code_of(const TaskEnd& end, int otherwise);

// Puts the culprit of a step that failed into `failure`, as far as there is one. Returns the exit
// code to report: the culprit's, else the step's.
[[nodiscard]] int blame(record::Failure& failure, int step_code, std::string_view srun_messages,
                        const std::vector<std::string>& error_files);

}  // namespace batchai::run
