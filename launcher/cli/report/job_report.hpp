// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/output/value.hpp"
#include "record/attempt.hpp"
#include "record/node_notes.hpp"
#include "slurm/client.hpp"
#include "slurm/job_outcome.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// A job with all that is known of how it fares.
struct JobReport {
    store::Job job;
    std::optional<record::Attempt> attempt;  // the newest
    slurm::JobEvidence evidence;
    slurm::ExecutionState state = slurm::ExecutionState::queued;
    // Of report_job(): data that its nodes could not store; that may turn out only after the job.
    std::vector<record::FailureNote> not_written;

    [[nodiscard]] bool ended() const {
        return state == slurm::ExecutionState::succeeded || state == slurm::ExecutionState::failed;
    }
    [[nodiscard]] std::optional<int> exit_code() const { return slurm::exit_code(evidence); }
    [[nodiscard]] std::optional<base::Time> start() const;
    [[nodiscard]] std::optional<base::Time> end() const;
};

// Asks Slurm once for all jobs, then reads their records. When Slurm does not answer, jobs whose
// record says that they ended are still reported; if any other is among them, that is an error.
[[nodiscard]] base::Result<std::vector<JobReport>> report_jobs(const store::Store& store,
                                                               const slurm::Client& client,
                                                               std::vector<store::Job> jobs);
[[nodiscard]] base::Result<JobReport> report_job(const store::Store& store,
                                                 const slurm::Client& client,
                                                 const store::JobKey& key);

// The newest attempt only, without Slurm: cheap enough to look at every second.
[[nodiscard]] base::Result<std::optional<record::Attempt>> latest_attempt(const store::Store& store,
                                                                          const store::JobKey& key);

// Every attempt at the job with its end, the first one first: an array of {attempt, startTime,
// endTime, exitCode, endedBy, message}.
[[nodiscard]] base::Result<Value> attempts_value(const store::Store& store,
                                                 const JobReport& report);

// errors of executionInfo: [{code, message, details: [{name, value}]}], or null.
[[nodiscard]] Value job_errors(const JobReport& report);

// The object that `job show` prints: all keys of Batch AI, slurmJobId, and pendingReason while the
// job is queued.
[[nodiscard]] base::Result<Value> to_value(const JobReport& report);

}  // namespace batchai::cli
