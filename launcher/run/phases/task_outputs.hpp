// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "run/line_merger.hpp"
#include "run/logs.hpp"

namespace batchai::run {

// Returns "prep-n1.txt" for the pattern "prep-%N.txt" and the node "n1", and "out-3.txt" for the
// pattern "out-%t.txt" and the task "3". Replaces nothing in the directories of a path.
[[nodiscard]] std::string file_of_task(std::string pattern, std::string_view task);

// Returns the pattern of the files into which the tasks of a step with one task for each node
// print: "prep-%t.txt" for "prep-%N.txt". Slurm's own "%N" is the name of the host, which is not
// that of the node everywhere. Task 0 is on the first of the step's nodes.
[[nodiscard]] std::string by_task(std::string pattern);

// A file into which a task prints. `task` is what takes the place of "%N" or "%t" in the logs.
// `own` is a name in the logs that a copy for this task alone gets; empty: none.
struct TaskFile {
    std::string task;
    std::string path;
    std::string own{};
};

// Returns the files of such a step, by node. `pattern` is what by_task() returns.
[[nodiscard]] std::vector<TaskFile> files_on_nodes(const std::vector<std::string>& nodes,
                                                   const std::string& pattern);

// Removes what an earlier try of such a step has left: the files of these patterns, and the reports
// of tasks that were refused.
void forget_earlier_try(const std::vector<std::string>& nodes,
                        const std::vector<std::string>& patterns,
                        const std::filesystem::path& refusals);

// Copies what the tasks of a step print into the logs while the step runs. The tasks do not write
// to the place of the logs themselves but into the job's directory, to which nobody else has
// access.
class TaskOutputs {
  public:
    // `logs` must outlive this object.
    explicit TaskOutputs(const LogDirectory& logs) : logs_(logs) {}

    // Adds the files of all tasks. If `pattern` contains "%N" or "%t", each task has a file of its
    // own in the logs; otherwise all tasks share one. Makes these files in the logs. `noted` is
    // told what has been copied to the `own` of a file, which it gets as the file's place in
    // `files`, and `seen` what a task has printed.
    [[nodiscard]] base::Result<void> add(const std::string& pattern,
                                         const std::vector<TaskFile>& files,
                                         LineMerger::Noted noted = {}, LineMerger::Seen seen = {});

    // Copies the complete lines that have been added since the last call. What cannot be copied, or
    // not soon, stays for the next call.
    void poll();
    // Copies everything that is left. An error does not stop the copying of other files. Warns of
    // the last one, with `whose` in front, and returns false if there was one: the tasks' own files
    // then have what the logs lack. Also warns of tasks that have truncated their output. Call
    // once, after the tasks have ended.
    bool finish(std::string_view whose, ExecutionLog& log);
    // Copies what has come since then, before the tasks' own files are removed: a process that
    // Slurm does not find may have written after the end of its step.
    bool finish_again();
    // Gives the tasks' own files what they had before a program truncated them.
    void restore_truncated(ExecutionLog& log) const;

  private:
    // The files of a pattern.
    struct Merged {
        LineMerger merger;
        std::string pattern;
        std::vector<std::string> tasks;
    };

    const LogDirectory& logs_;
    std::vector<Merged> merged_;
    std::size_t next_ = 0;  // the one to begin with
};

}  // namespace batchai::run
