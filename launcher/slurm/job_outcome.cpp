// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_outcome.hpp"

#include <fmt/format.h>

namespace batchai::slurm {

namespace {

// Waiting to run, for the first time or again.
bool waits(JobState state) {
    switch (state) {
        case JobState::pending:
        case JobState::requeued:
        case JobState::requeue_hold:
        case JobState::requeue_fed:
        case JobState::resizing:
        case JobState::special_exit:
        case JobState::reservation_deleted_hold:
            return true;
        default:
            return false;
    }
}

bool record_decides(const JobEvidence& evidence) {
    if (!evidence.attempt || !evidence.attempt->exit_code) return false;
    return !evidence.slurm || !requeued_since(*evidence.slurm, *evidence.attempt);
}

ExecutionState by_slurm(const JobStatus& job, bool termination_requested) {
    if (job.state == JobState::completed)
        return job.exit_code.value_or(0) == 0 ? ExecutionState::succeeded : ExecutionState::failed;
    // Slurm reports a preempted job that it requeues as pending soon; the queue still knows it
    // then.
    if (job.state == JobState::preempted && job.reason == "BeginTime")
        return ExecutionState::queued;
    if (is_final(job.state)) return ExecutionState::failed;
    if (termination_requested || job.state == JobState::signaling)
        return ExecutionState::terminating;
    return waits(job.state) ? ExecutionState::queued : ExecutionState::running;
}

FailureCode terminated() {
    return {"JobTerminated", "The specified job has been terminated by the user"};
}

FailureCode by_state(const JobStatus& job) {
    switch (job.state) {
        case JobState::timeout:
            return {"JobTimedOut", "The job ran longer than its time limit and Slurm ended it"};
        case JobState::node_fail:
            return {"NodeFailed", "A node of the job failed while the job ran"};
        case JobState::out_of_memory:
            return {"JobOutOfMemory", "The job used more memory than it was given"};
        case JobState::boot_fail:
            return {"NodeBootFailed", "A node of the job could not be started"};
        case JobState::deadline:
            return {"JobDeadlineExceeded", "The job could not end before its deadline"};
        case JobState::preempted:
            return {"JobPreempted", "A job of higher priority took the nodes of the job"};
        case JobState::cancelled:
            return {"JobCancelled", "The job was cancelled in Slurm"};
        case JobState::revoked:
            return {"JobRevoked", "Another cluster of the federation took the job"};
        default:
            break;
    }
    if (job.reason == "JobLaunchFailure" && !job.signal && job.exit_code.value_or(0) == 0)
        return {"JobLaunchFailed", "Slurm could not start the job on its node"};
    return {"JobFailed", "Job failed with non-zero exit code"};
}

}  // namespace

bool requeued_since(const JobStatus& job, const AttemptView& attempt) {
    switch (job.state) {
        case JobState::requeued:
        case JobState::requeue_hold:
        case JobState::requeue_fed:
        case JobState::special_exit:
            return true;
        default:
            return job.restart_count >= attempt.number;
    }
}

std::string_view to_string(ExecutionState state) {
    switch (state) {
        case ExecutionState::queued:
            return "queued";
        case ExecutionState::running:
            return "running";
        case ExecutionState::terminating:
            return "terminating";
        case ExecutionState::succeeded:
            return "succeeded";
        case ExecutionState::failed:
            return "failed";
    }
    return "failed";
}

ExecutionState execution_state(const JobEvidence& evidence) {
    if (record_decides(evidence))
        return *evidence.attempt->exit_code == 0 ? ExecutionState::succeeded
                                                 : ExecutionState::failed;
    if (evidence.slurm) return by_slurm(*evidence.slurm, evidence.termination_requested);
    return ExecutionState::failed;
}

std::optional<FailureCode> failure_code(const JobEvidence& evidence) {
    if (execution_state(evidence) != ExecutionState::failed) return std::nullopt;
    if (evidence.termination_requested) return terminated();
    if (evidence.slurm && is_final(evidence.slurm->state) &&
        evidence.slurm->state != JobState::completed)
        return by_state(*evidence.slurm);
    if (record_decides(evidence))
        return FailureCode{"JobFailed", "Job failed with non-zero exit code"};
    if (evidence.slurm) return by_state(*evidence.slurm);
    return FailureCode{"JobLost",
                       "Slurm does not know the job any more, and it left no record of its end"};
}

std::optional<int> exit_code(const JobEvidence& evidence) {
    const ExecutionState state = execution_state(evidence);
    if (state != ExecutionState::succeeded && state != ExecutionState::failed) return std::nullopt;
    if (state == ExecutionState::failed && evidence.termination_requested) return std::nullopt;
    if (record_decides(evidence)) return evidence.attempt->exit_code;
    if (!evidence.slurm) return std::nullopt;
    if (evidence.slurm->signal) return 128 + *evidence.slurm->signal;
    // A job that never ran, or that Slurm ended, has no code of its own: its 0 says nothing.
    const bool own =
        evidence.slurm->state == JobState::completed || evidence.slurm->exit_code.value_or(0) != 0;
    return own ? evidence.slurm->exit_code : std::nullopt;
}

}  // namespace batchai::slurm
