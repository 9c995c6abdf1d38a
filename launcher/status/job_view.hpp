// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "record/attempt.hpp"
#include "record/node_notes.hpp"
#include "slurm/client.hpp"
#include "slurm/job_outcome.hpp"
#include "status/array_view.hpp"
#include "store/store.hpp"

// What people see of a job. Its view is put together here from its records and from what Slurm
// says. The other parts are:
//
//   array_view.hpp        the tasks of an array job
//   job_watch.hpp         follows a job with few queries to Slurm
//   job_progress.hpp      follows a job for a command, and says what happens to it
//   job_logs.hpp          what the ranks have printed, in the order of time
//   output_directory.hpp  finds the directories of a job's output, and reads files there
//   resource_view.hpp     the JSON objects and table columns of all resources
//   metrics.hpp           a user's jobs as metrics for Prometheus
//   usage/                what a job has used, and what its steps use now
//   sweep/                the points of a sweep, and the number by which they are compared
//   job_facts.hpp         gathers the facts of a job for the next two
//   history/              what has happened to a job, and what could be better
//   page/                 the report about that, as a page of HTML and for the terminal
namespace batchai::status {

// A job and everything that is known about its state.
struct JobView {
    store::Job job;
    std::optional<record::Attempt> attempt;  // the newest
    slurm::JobEvidence evidence;
    slurm::ExecutionState state = slurm::ExecutionState::queued;
    // Data that the nodes could not write to its storage. Only view_job() sets it. Such a failure
    // may be noticed only after the job has ended.
    std::vector<record::FailureNote> not_written;
    // All tasks of an array job; `state` then combines theirs (slurm::combined_state). Empty if the
    // job is not an array, or if the view is that of one task.
    std::vector<TaskView> tasks;
    // The task of an array job that `attempt` and `evidence` are about.
    std::optional<int> task;

    [[nodiscard]] bool ended() const {
        return state == slurm::ExecutionState::succeeded || state == slurm::ExecutionState::failed;
    }
    // Returns whether Slurm keeps the job from running for now, and will let it go on.
    [[nodiscard]] bool suspended() const {
        return state == slurm::ExecutionState::running && evidence.slurm &&
               (evidence.slurm->state == slurm::JobState::suspended ||
                evidence.slurm->state == slurm::JobState::stopped);
    }
    // Of an array job, the exit code of the first task that failed, once all have ended.
    [[nodiscard]] std::optional<int> exit_code() const {
        return ended() ? slurm::exit_code(evidence) : std::nullopt;
    }
    [[nodiscard]] std::optional<base::Time> start() const;
    [[nodiscard]] std::optional<base::Time> end() const;
};

// Slurm's answer about jobs, which may still be on its way.
using AskedJobs = std::future<base::Result<slurm::Jobs>>;

// Asks Slurm once for all jobs, except those that are in `asked`, and reads their records
// meanwhile. If Slurm does not answer, the jobs are still viewed if all their records say that they
// have ended; otherwise that is an error. It is also an error if accounting does not answer, and
// only it knows whether some of the jobs, or tasks of them, have ended. With `left_out`, these jobs
// are left out, and it becomes why.
[[nodiscard]] base::Result<std::vector<JobView>> view_jobs(
    const store::Store& store, const slurm::Client& client, std::vector<store::Job> jobs,
    AskedJobs asked = {}, std::optional<base::Error>* left_out = nullptr);
// Returns all jobs of an experiment. If there are many, Slurm is asked before their names are
// known. A job whose record cannot be read, or of which only accounting knows whether it has ended
// while it does not answer, is left out, which is said as an error and makes `complete` false.
[[nodiscard]] base::Result<std::vector<JobView>> view_jobs_of(const store::Store& store,
                                                              const slurm::Client& client,
                                                              const store::ExperimentKey& key,
                                                              bool& complete);
// Returns one job or, with `task`, one task of an array job.
[[nodiscard]] base::Result<JobView> view_job(const store::Store& store, const slurm::Client& client,
                                             const store::JobKey& key,
                                             std::optional<int> task = {});
// Returns one task of an array job. A job that is not an array, or does not have the task, is an
// error.
[[nodiscard]] base::Result<TaskView> task_of(const JobView& view, int number);
// Returns the files of the job, or of that task.
[[nodiscard]] record::JobFiles files_of(const store::Store& store, const store::JobKey& key,
                                        std::optional<int> task);
// The error for a task of a job that is not an array job.
[[nodiscard]] base::Error not_an_array(const store::JobKey& key);

// Returns all attempts of the job, oldest first, as an array of {attempt, startTime, endTime,
// exitCode, endedBy, message, retry}.
[[nodiscard]] base::Result<base::Value> attempts_value(const store::Store& store,
                                                       const JobView& view);

// Returns the `errors` of executionInfo: [{code, message, details: [{name, value}]}], or null.
[[nodiscard]] base::Value job_errors(const JobView& view);

// Returns the object that `job show` prints: all of Batch AI's keys, slurmJobId, and pendingReason
// while the job is queued.
[[nodiscard]] base::Value to_value(const JobView& view);
// The same, with the properties of the job taken out of the view. Copying them is much of the time
// of a list of thousands.
[[nodiscard]] base::Value to_value(JobView&& view);

}  // namespace batchai::status
