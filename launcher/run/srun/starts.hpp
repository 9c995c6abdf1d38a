// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/job_files.hpp"

namespace batchai::run {

// The tasks of a step, and what shows that they have started. A step has succeeded only if all of
// them have: srun ends with 0 also after "launch failed".
struct ExpectedStarts {
    record::JobFiles files;
    std::string step;                       // the name of its start notes
    int nodes = 0;                          // of the step
    std::vector<std::string> node_of_task;  // "" where it is unknown
    // The standard error of each task. slurmstepd makes these files on the tasks' nodes before it
    // starts any task there, and refuses to start the node's tasks if it cannot.
    std::vector<std::string> error_files;
};

struct NotStarted {
    int task = -1;     // -1: any of the node's
    std::string node;  // empty: unknown
    std::string reason;

    bool operator==(const NotStarted&) const = default;
};

// Sorted by task.
struct Starts {
    std::vector<NotStarted> missing;
    // These tasks have not said that they have started, for example because the disk is full. But
    // their files are there, and srun says that they ended well.
    std::vector<int> unconfirmed;
};

// Removes the notes of tasks under these names.
void forget_starts(const ExpectedStarts& expected);

// Finds out what started once srun has ended with `exit_code`. Must be called before anybody else
// makes files that are missing. `expected` is null if nothing but srun's messages is to be looked
// at. If srun has not ended with 0, a task that has not said that it started counts as missing only
// if srun says so: the step may have been ended while it started.
[[nodiscard]] Starts starts_of(const ExpectedStarts* expected, std::string_view srun_messages,
                               int exit_code);

// Returns why nothing can be written where the tasks' output comes to, such as "DIRECTORY: No space
// left on device"; empty: it can. A program whose output finds no room often fails, and has no room
// to say why. Replaces a start note.
[[nodiscard]] std::string why_no_room(const ExpectedStarts& expected);

}  // namespace batchai::run
