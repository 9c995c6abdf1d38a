// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_outcome.hpp"

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

// Returns whether the job waits to run, for the first time or again.
bool waits(JobState state) {
    switch (state) {
        case JobState::pending:
        case JobState::expediting:
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
    // Until Slurm has queued the job again, it still shows what it showed before. If it shows an
    // end, it has not queued the job.
    if (evidence.attempt->runs_again && evidence.slurm && !is_final(evidence.slurm->state))
        return false;
    return !evidence.slurm || !requeued_since(*evidence.slurm, *evidence.attempt);
}

ExecutionState by_slurm(const JobStatus& job, bool termination_requested) {
    if (job.state == JobState::completed)
        return job.exit_code.value_or(0) == 0 ? ExecutionState::succeeded : ExecutionState::failed;
    // Slurm requeues this preempted job and will soon report it as pending. Until then the queue
    // still has the job.
    if (job.state == JobState::preempted && job.reason == "BeginTime")
        return ExecutionState::queued;
    if (is_final(job.state)) return ExecutionState::failed;
    if (termination_requested || job.state == JobState::signaling)
        return ExecutionState::terminating;
    return waits(job.state) ? ExecutionState::queued : ExecutionState::running;
}

using record::EndedBy;

// Returns the user id in accounting's "CANCELLED by 1000".
std::optional<unsigned> cancelled_by(const JobStatus& job) {
    constexpr std::string_view words = "CANCELLED by ";
    if (!job.state_text.starts_with(words)) return std::nullopt;
    return base::number_in<unsigned>(std::string_view(job.state_text).substr(words.size()));
}

// Returns whether Slurm itself has cancelled the job (--kill-on-invalid-dep, kill_invalid_depend).
// Accounting has the reason from before, and names whoever else cancels a job.
bool could_not_meet_dependency(const JobStatus& job) {
    return job.state == JobState::cancelled && job.nodes.empty() && !cancelled_by(job) &&
           (job.reason == "DependencyNeverSatisfied" ||
            (job.from_accounting && job.reason == "Dependency"));
}

// Slurm reports this number of a signal for a batch script whose output it could not open.
bool has_no_output_file(const JobStatus& job) {
    constexpr int in_place_of_a_signal = 53;
    return job.state == JobState::failed && job.signal == in_place_of_a_signal;
}

bool could_not_be_launched(const JobStatus& job) {
    if (has_no_output_file(job)) return true;
    return job.reason == "JobLaunchFailure" && !job.signal && job.exit_code.value_or(0) == 0;
}

// Returns what ended the job according to Slurm. Returns nothing if Slurm names no cause other than
// the job's own program.
std::optional<EndedBy> ended_by_slurm(const JobStatus& job, std::optional<unsigned> owner) {
    switch (job.state) {
        case JobState::timeout:
        case JobState::deadline:
            return EndedBy::time_limit;
        case JobState::node_fail:
        case JobState::boot_fail:
            return EndedBy::node;
        case JobState::out_of_memory:
            return EndedBy::memory;
        case JobState::preempted:
            return EndedBy::preemption;
        case JobState::revoked:
            return EndedBy::administrator;
        case JobState::cancelled: {
            if (could_not_meet_dependency(job)) return EndedBy::start;
            const auto by = cancelled_by(job);
            return by && owner && *by != *owner ? EndedBy::administrator : EndedBy::user;
        }
        default:
            return could_not_be_launched(job) ? std::optional(EndedBy::start) : std::nullopt;
    }
}

// Returns a more exact code and sentence than record::words_of() if Slurm's status gives one.
std::optional<FailureCode> by_state(const JobStatus& job) {
    switch (job.state) {
        case JobState::boot_fail:
            return FailureCode{"NodeBootFailed", "A node of the job could not be started"};
        case JobState::deadline:
            return FailureCode{"JobDeadlineExceeded", "The job could not end before its deadline"};
        case JobState::revoked:
            return FailureCode{"JobRevoked", "Another cluster of the federation took the job"};
        default:
            break;
    }
    if (could_not_meet_dependency(job))
        return FailureCode{"JobDependencyFailed",
                           "A job that this one depends on ended in another way than needed"};
    if (has_no_output_file(job))
        return FailureCode{"JobLaunchFailed",
                           "Slurm could not open slurm.log in the job's directory on the job's "
                           "node, which must see the directory of the records too (BATCHAI_HOME)"};
    if (could_not_be_launched(job))
        return FailureCode{"JobLaunchFailed", "Slurm could not start the job on its node"};
    return std::nullopt;
}

// Returns the exit code of the job's program. A job that never ran, or that Slurm ended, has none:
// the 0 that Slurm reports for it has no meaning, nor has the 1 of a lost node since 24.11.
std::optional<int> own_exit_code(const JobStatus& job) {
    switch (job.state) {
        case JobState::node_fail:
        case JobState::boot_fail:
        case JobState::preempted:
        case JobState::deadline:
            return std::nullopt;
        case JobState::completed:
            return job.exit_code;
        default:
            return job.exit_code.value_or(0) != 0 ? job.exit_code : std::nullopt;
    }
}

}  // namespace

bool requeued_since(const JobStatus& job, const AttemptView& attempt) {
    switch (job.state) {
        case JobState::requeued:
        case JobState::requeue_hold:
        case JobState::requeue_fed:
        case JobState::special_exit:
        case JobState::expediting:
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

EndedBy ended_by(const JobEvidence& evidence) {
    if (execution_state(evidence) == ExecutionState::succeeded) return EndedBy::program;
    if (evidence.termination_requested) return EndedBy::user;
    const auto by_slurm =
        evidence.slurm ? ended_by_slurm(*evidence.slurm, evidence.owner) : std::nullopt;
    if (!record_decides(evidence)) {
        if (by_slurm) return *by_slurm;
        if (!evidence.slurm) return evidence.left_array ? EndedBy::user : EndedBy::unknown;
        const bool began =
            evidence.attempt ? evidence.attempt->program_began : !evidence.script_is_ours;
        return began ? EndedBy::program : EndedBy::start;
    }
    const auto recorded = evidence.attempt->ended_by;
    // While the job still runs, an end that Slurm causes looks like a cancellation by the user. In
    // these cases Slurm's later status is more exact than the record.
    const bool vague = !recorded || *recorded == EndedBy::user || *recorded == EndedBy::unknown;
    if (vague && by_slurm) return *by_slurm;
    return recorded.value_or(EndedBy::program);
}

std::optional<FailureCode> failure_code(const JobEvidence& evidence) {
    if (execution_state(evidence) != ExecutionState::failed) return std::nullopt;
    const bool slurm_speaks =
        evidence.slurm && is_final(evidence.slurm->state) && !evidence.termination_requested;
    if (slurm_speaks) {
        if (auto exact = by_state(*evidence.slurm)) return exact;
    }
    const record::EndWords words = record::words_of(ended_by(evidence));
    if (evidence.left_array && !evidence.termination_requested)
        return FailureCode{std::string(words.code), "The task was cancelled while it waited"};
    return FailureCode{std::string(words.code), std::string(words.message)};
}

std::optional<int> exit_code(const JobEvidence& evidence) {
    const ExecutionState state = execution_state(evidence);
    if (state != ExecutionState::succeeded && state != ExecutionState::failed) return std::nullopt;
    if (state == ExecutionState::failed && evidence.termination_requested) return std::nullopt;
    if (record_decides(evidence)) return evidence.attempt->exit_code;
    if (!evidence.slurm) return std::nullopt;
    if (has_no_output_file(*evidence.slurm)) return std::nullopt;
    if (evidence.slurm->signal) return 128 + *evidence.slurm->signal;
    return own_exit_code(*evidence.slurm);
}

}  // namespace batchai::slurm
