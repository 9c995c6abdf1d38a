// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "run/logs.hpp"

namespace batchai::run {

// Returns "prep-n1.txt" for the pattern "prep-%N.txt" and the node "n1", and "out-3.txt" for the
// pattern "out-%t.txt" and the task "3".
[[nodiscard]] std::string file_of_task(std::string pattern, std::string_view task);

// A file into which a task prints. `task` is what srun puts in the place of "%N" or "%t".
struct TaskFile {
    std::string task;
    std::string path;
};

// Copies what the tasks of a step print into the logs while the step runs. The tasks do not write
// to the place of the logs themselves but into the job's directory, to which nobody else has
// access.
class TaskOutputs {
  public:
    // `logs` must outlive this object.
    explicit TaskOutputs(const LogDirectory& logs) : logs_(logs) {}

    // Adds the files of all tasks. If `pattern` contains "%N" or "%t", each task has a file of its
    // own in the logs; otherwise all tasks share one. Makes the files in the logs.
    [[nodiscard]] base::Result<void> add(const std::string& pattern,
                                         const std::vector<TaskFile>& files);

    // Copies the complete lines that have been added since the last call. What cannot be copied
    // stays for the next call.
    void poll();
    // Copies everything that is left. An error does not stop the copying of other files. Warns of
    // the last one, with `whose` in front, and returns false if there was one. Call once, after the
    // tasks have ended.
    bool finish(std::string_view whose);

  private:
    const LogDirectory& logs_;
    std::vector<LineMerger> mergers_;
};

}  // namespace batchai::run
