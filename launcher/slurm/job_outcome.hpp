// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "record/ended_by.hpp"
#include "slurm/status.hpp"

// What Batch AI would call a job's state. Pure.
namespace batchai::slurm {

enum class ExecutionState { queued, running, terminating, succeeded, failed };

// "queued", "running", …
[[nodiscard]] std::string_view to_string(ExecutionState state);

// What the record of the newest attempt says (record/attempt.hpp). Attempt n is the run after n-1
// requeues (SLURM_RESTART_COUNT + 1).
struct AttemptView {
    int number = 1;
    std::optional<int> exit_code;  // none: has not ended, or was killed before it could say so
    std::optional<record::EndedBy> ended_by{};
};

// Slurm's word is about a later incarnation than the attempt: the job is being, or was, requeued.
[[nodiscard]] bool requeued_since(const JobStatus& job, const AttemptView& attempt);

// All that is known of a job. Read Slurm first and the record after it.
struct JobEvidence {
    std::optional<JobStatus> slurm;  // none: neither queue nor accounting knows it
    std::optional<AttemptView> attempt;
    bool termination_requested = false;
    // The user's numeric id, to tell the user's scancel from somebody else's.
    std::optional<unsigned> owner{};
};

// Our own record of the end comes first, unless the job was requeued since; then Slurm's word. A
// job that nobody knows and that left no record of its end has failed.
[[nodiscard]] ExecutionState execution_state(const JobEvidence& evidence);

// Who or what ended the job, by all that is known; program for one that succeeded.
[[nodiscard]] record::EndedBy ended_by(const JobEvidence& evidence);

struct FailureCode {
    std::string code;     // "JobTerminated", "JobTimedOut", …
    std::string message;  // a sentence

    bool operator==(const FailureCode&) const = default;
};

// The sentence for a job that failed; nothing unless execution_state() is failed. When the record
// names a failure and ended_by() is the record's, the record is nearer to the cause.
[[nodiscard]] std::optional<FailureCode> failure_code(const JobEvidence& evidence);

// The job's exit code for executionInfo: the record's, else Slurm's (128 + signal for a signal);
// nothing while the job runs, and for a job that the user stopped.
[[nodiscard]] std::optional<int> exit_code(const JobEvidence& evidence);

}  // namespace batchai::slurm
