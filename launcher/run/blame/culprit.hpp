// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/attempt.hpp"
#include "run/blame/slurm_words.hpp"

namespace batchai::run {

// The line of a program's standard error that says what went wrong: the last line of the first
// Python traceback; else the first line that looks like an error, else the last non-empty line. At
// most 400 bytes, no control characters.
[[nodiscard]] std::string first_error_line(std::string_view standard_error);

// True for a message that only tells of a connection that somebody else has broken. What
// libmpi_bridge reports counts before this guess at the words of other libraries.
[[nodiscard]] bool tells_of_a_broken_connection(std::string_view error_line);

// Where the tasks of a step have left word of what went wrong, by their numbers.
struct TaskWords {
    std::vector<std::string> error_files;   // the standard error of each task
    std::filesystem::path refusals{};       // the reports of record/task_reports.hpp
    std::filesystem::path rank_failures{};  // empty: the step has no ranks
};

// The end of the task that is to blame, and one line about it, the plugin's if that did not let the
// task run, else the first error line of its standard error: a signal comes before an exit code, a
// cause before a report of somebody else's death, the earlier before the later. A victim is to
// blame only if it ended the step itself; how it was killed then says nothing.
[[nodiscard]] std::optional<std::pair<TaskEnd, std::string>> culprit(
    const std::vector<TaskEnd>& ends, const TaskWords& words);

// As a shell says it.
[[nodiscard]] int exit_code_of(const TaskEnd& end, int otherwise);

// Puts the culprit of a step that failed into `failure`, as far as there is one. Returns the exit
// code to report: the culprit's, else the step's.
[[nodiscard]] int blame(record::Failure& failure, int step_code, std::string_view srun_messages,
                        const TaskWords& words);

}  // namespace batchai::run
