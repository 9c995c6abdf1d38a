// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

// Waits after a step until its nodes have stored what it wrote, or until the job is told to end;
// returns the signal that said so. The step itself does not wait for that, because Slurm drains
// nodes whose steps do not end. A node that has not finished in the time that it named gets a
// failure note.
[[nodiscard]] std::optional<int> wait_until_stored(const Context& context);

// Leaves the end of an attempt with Slurm, because its record cannot be written
// (record/last_words.hpp).
void leave_last_words(const slurm::Client& slurm, const record::Attempt& attempt,
                      const std::string& id_in_commands);

// Writes the record of an attempt that could not begin, for `batchai job show`, or leaves its end
// with Slurm. The record is put beside the plan, whatever directory the plan itself names. Does
// nothing if the plan's directory is not the user's own.
void record_failed_start(const std::string& plan_path, const base::Error& error,
                         const slurm::ThisJob& job, int attempts_before = 0);

// The rest of this file finds out why a step failed when its own program is not the cause.

// Asks Slurm who ends the job, as long as Slurm lets us run. slurmstepd writes the answer to the
// batch script's standard error before it signals any process. If standard error is not a file, or
// has no such notice, the controller is asked.
class SlurmsWord final : public OutsideWord {
  public:
    // Notices that are already in standard error come from earlier attempts. `previous_begin` is
    // its size when the previous attempt began, so that no older attempt's end is taken for its.
    SlurmsWord(std::string job_id, int restart, std::size_t previous_begin = 0);

    [[nodiscard]] std::optional<record::EndedBy> why_job_ends() override;
    [[nodiscard]] bool user_ends_job() override;
    // The size of standard error when this object was made.
    [[nodiscard]] std::size_t begin() const { return read_; }
    // Returns how the attempt before this one ended, according to the last of those earlier
    // notices.
    [[nodiscard]] std::optional<record::EndedBy> why_restarted() const { return earlier_; }

  private:
    [[nodiscard]] std::string said_since() const;

    std::string job_id_;
    int restart_;
    std::size_t read_ = 0;  // bytes of standard error that are older than this object
    std::optional<record::EndedBy> earlier_;
};

// Returns the ending of the attempt if its step failed because the job was ended from outside.
[[nodiscard]] std::optional<Ending> ended_from_outside(const Context& context,
                                                       const StepResult& result,
                                                       std::string_view phase);

// Returns the end of a step on all nodes from which srun says that a node was lost.
[[nodiscard]] std::optional<Ending> lost_a_node(const StepResult& result, std::string_view phase);

// What the tasks of a step are, such as "rank".
struct TasksOfStep {
    std::string_view task;
    bool on_each_node = false;  // their numbers stand for nodes
};

// Returns the sentence on tasks that have not started. There must be one.
[[nodiscard]] std::string start_failure_line(const std::vector<NotStarted>& missing,
                                             const TasksOfStep& tasks);

// Returns the ending of the attempt if a task of the step has not started.
[[nodiscard]] std::optional<Ending> start_failure(const StepResult& result,
                                                  const TasksOfStep& tasks, std::string_view phase);

// Tells the log of tasks of a step that ended well whose start is not confirmed.
void log_unconfirmed_starts(const Context& context, const StepResult& result,
                            const TasksOfStep& tasks);

// Must be called before a step, so that any failure note found later is about that step.
void expect_node_failures(const Context& context);

// Returns the ending for the first node that could not do its part of the step, for example because
// a mount failed, if there is such a node. Waits until the nodes have stored what the step wrote,
// unless the job is told to end during this wait or was told so during the step (`stopped_by`).
// `ended_well` says that the step itself succeeded. Then only data that did not reach its storage
// counts, because a sandbox that failed belongs to a step that somebody else started in the job.
[[nodiscard]] std::optional<Ending> node_failure(const Context& context, std::string_view phase,
                                                 bool ended_well = false,
                                                 std::optional<int> stopped_by = {});

}  // namespace batchai::run
