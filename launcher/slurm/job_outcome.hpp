// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "record/ended_by.hpp"
#include "slurm/status.hpp"

// Derives a job's state in Batch AI's terms. Pure.
namespace batchai::slurm {

enum class ExecutionState { queued, running, terminating, succeeded, failed };

// "queued", "running", …
[[nodiscard]] std::string_view to_string(ExecutionState state);

// What the record of the newest attempt says (record/attempt.hpp). Attempt n is the run after n-1
// requeues, so n is SLURM_RESTART_COUNT + 1.
struct AttemptView {
    int number = 1;
    std::optional<int> exit_code;  // absent: not ended, or killed before it could record its end
    std::optional<record::EndedBy> ended_by{};
    bool runs_again = false;    // Slurm is asked to run the job again, or has been asked
    bool program_began = true;  // its ranks were to start
};

// Returns whether Slurm's status is about a later incarnation than the attempt, because the job was
// requeued or is being requeued.
[[nodiscard]] bool requeued_since(const JobStatus& job, const AttemptView& attempt);

// All that is known about a job. Ask Slurm first and read the record after that, so that the record
// is not older than Slurm's status.
struct JobEvidence {
    std::optional<JobStatus> slurm;  // absent: neither queue nor accounting knows it
    std::optional<AttemptView> attempt;
    bool termination_requested = false;
    // The batch script is that of `job create`. If it could start, it has left a record, unless it
    // could not write one.
    bool script_is_ours = false;
    // A task that never began, and that Slurm does not know although it knows others of the array:
    // Slurm forgets at once a task that is cancelled while it waits.
    bool left_array = false;
    // The user's numeric id, which tells the user's own scancel from that of somebody else.
    std::optional<unsigned> owner{};
};

// Our own record of the end decides, unless the job was requeued since then or is to run again.
// Otherwise Slurm's
// status decides. A job that Slurm does not know and that left no record of its end has failed.
[[nodiscard]] ExecutionState execution_state(const JobEvidence& evidence);

// Returns who or what ended the job, according to all that is known. Returns `program` for a job
// that succeeded.
[[nodiscard]] record::EndedBy ended_by(const JobEvidence& evidence);

struct FailureCode {
    std::string code;     // "JobTerminated", "JobTimedOut", …
    std::string message;  // a sentence

    bool operator==(const FailureCode&) const = default;
};

// Returns the code and the sentence for a job that failed, or nothing unless execution_state() is
// `failed`. If the record names a failure and has the same cause as ended_by(), prefer the record's
// failure, because it is closer to the cause.
[[nodiscard]] std::optional<FailureCode> failure_code(const JobEvidence& evidence);

// Returns the job's exit code for executionInfo. This is the record's code, or else Slurm's (128 +
// signal if a signal ended the job). Returns nothing while the job runs, and nothing for a job that
// the user stopped.
[[nodiscard]] std::optional<int> exit_code(const JobEvidence& evidence);

}  // namespace batchai::slurm
