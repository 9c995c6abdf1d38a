// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "record/attempt.hpp"
#include "slurm/array_indexes.hpp"
#include "slurm/client.hpp"
#include "slurm/job_outcome.hpp"
#include "store/store.hpp"

namespace batchai::status {

// One task of an array job.
struct TaskView {
    int number = 0;
    std::optional<record::Attempt> attempt;  // the newest
    slurm::JobEvidence evidence;
    slurm::ExecutionState state = slurm::ExecutionState::queued;

    [[nodiscard]] bool failed() const { return state == slurm::ExecutionState::failed; }
    [[nodiscard]] bool ended() const {
        return state == slurm::ExecutionState::succeeded || failed();
    }
};

// What Slurm says of the tasks of arrays, by the array's id and the task's number. Tasks that wait
// share one status. `array_tasks` is empty.
using ArrayStatuses = std::map<std::string, std::map<int, std::shared_ptr<const slurm::JobStatus>>>;

[[nodiscard]] ArrayStatuses array_statuses(const slurm::Jobs& jobs);

// Returns the ids of all Slurm arrays of the job; of a job that is not an array, its one id.
[[nodiscard]] std::vector<std::string> slurm_ids_of(const store::Job& job);

// Returns the numbers of all tasks of an array job, those that Slurm has forgotten as well.
[[nodiscard]] base::Result<std::vector<int>> tasks_of(const store::Store& store,
                                                      const store::Job& job,
                                                      const ArrayStatuses& statuses);

// The Slurm array that runs a task, or has run it last.
struct TaskRun {
    std::string slurm_job_id;
    int attempts_before = 0;
};
// Returns it for each of `tasks`, in their order.
[[nodiscard]] std::vector<TaskRun> runs_of(const store::Job& job, const std::vector<int>& tasks);

// Puts together what is known about an attempt's job: an attempt from before the last requeue is
// dropped, since its failure and times do not belong to the current run.
[[nodiscard]] slurm::JobEvidence evidence_of(const store::Job& job,
                                             std::optional<slurm::JobStatus> status,
                                             std::optional<record::Attempt>& attempt,
                                             int attempts_before = 0);

// Returns a view of each task.
[[nodiscard]] base::Result<std::vector<TaskView>> view_tasks(const store::Store& store,
                                                             const store::Job& job,
                                                             const ArrayStatuses& statuses);

// Returns whether Slurm has said nothing about a task that has not ended by its record.
[[nodiscard]] bool needs_accounting(const std::vector<TaskView>& tasks);

[[nodiscard]] slurm::TaskCounts count_tasks(const std::vector<TaskView>& tasks);

// Returns the task that the view of a whole job in this state tells about: of a failed job the
// first that failed, of a running one the first that runs, and so on.
[[nodiscard]] const TaskView& representative(const std::vector<TaskView>& tasks,
                                             slurm::ExecutionState state);

[[nodiscard]] std::optional<base::Time> start_of(const TaskView& task);
[[nodiscard]] std::optional<base::Time> end_of(const TaskView& task);

// {"queued": 3, …, "total": 8}
[[nodiscard]] base::Value to_value(const slurm::TaskCounts& counts);
// [{task, executionState, exitCode, node, startTime, endTime, slurmJobId}]
[[nodiscard]] base::Value to_value(const std::vector<TaskView>& tasks);

}  // namespace batchai::status
