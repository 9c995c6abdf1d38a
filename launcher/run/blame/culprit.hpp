// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/attempt.hpp"
#include "run/blame/error_line.hpp"
#include "run/blame/slurm_words.hpp"

namespace batchai::run {

// The files in which the tasks of a step have reported what went wrong.
struct TaskWords {
    std::string job_id;                     // Slurm's
    std::vector<std::string> error_files;   // the standard error of each task, by task number
    std::filesystem::path refusals{};       // the reports of record/task_reports.hpp
    std::filesystem::path rank_failures{};  // empty: the step has no ranks
    bool outlive_losses = false;            // Context::keeps_processes()
};

// The task that is to blame.
struct Culprit {
    TaskEnd end;
    // The plugin's refusal if it did not let the task run, else the first error line of the task's
    // standard error.
    std::string line;
    // Says whether the rank to blame was found from the reports of libmpi_bridge or was guessed
    // from standard error, and why it had to be guessed. Empty if the step has no ranks.
    std::string evidence{};
    bool follows = false;  // the task tells only that it has lost another one
};

// Returns the task that is to blame. A signal takes precedence over an exit code, a cause over a
// report that another rank has died, and an earlier end over a later one; but a rank that aborted
// the step takes precedence over those that Slurm terminated for it. A victim is to blame only if
// it ended the step itself; its signal and exit code are then left out, because they only say how
// it was killed.
[[nodiscard]] std::optional<Culprit> culprit(const std::vector<TaskEnd>& ends,
                                             const TaskWords& words);

// Returns the exit code that a shell would report, or `otherwise` if the end has neither a signal
// nor an exit code.
[[nodiscard]] int exit_code_of(const TaskEnd& end, int otherwise);

struct Blame {
    int exit_code = 0;         // to report: that of the task to blame, else that of the step
    std::string evidence;      // of the culprit, for the log
    bool for_memory = false;   // Slurm ended the step for the memory that it used on one node
    bool knows_cause = false;  // the task has not just lost another one
};

// Adds to the reason of a failure that the output of the tasks finds no room (StepResult::no_room).
void name_full_disk(record::Failure& failure, const std::string& no_room);

// Writes into `failure` which task is to blame for the failed step, if one is found. If Slurm ended
// the step for its memory, writes the node and Slurm's words, because Slurm names no task.
[[nodiscard]] Blame blame(record::Failure& failure, int step_code, std::string_view srun_messages,
                          const TaskWords& words);

}  // namespace batchai::run
