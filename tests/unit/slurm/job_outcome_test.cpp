// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_outcome.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

JobEvidence of(JobState state) {
    JobEvidence evidence;
    evidence.slurm = JobStatus{};
    evidence.slurm->state = state;
    return evidence;
}

TEST(ExecutionStateTable, EachStateOfSlurmHasItsRow) {
    const std::vector<std::pair<JobState, ExecutionState>> rows{
        {JobState::pending, ExecutionState::queued},
        {JobState::requeued, ExecutionState::queued},
        {JobState::expediting, ExecutionState::queued},
        {JobState::requeue_hold, ExecutionState::queued},
        {JobState::requeue_fed, ExecutionState::queued},
        {JobState::special_exit, ExecutionState::queued},
        {JobState::reservation_deleted_hold, ExecutionState::queued},
        {JobState::resizing, ExecutionState::queued},
        {JobState::configuring, ExecutionState::running},
        {JobState::running, ExecutionState::running},
        {JobState::suspended, ExecutionState::running},
        {JobState::stopped, ExecutionState::running},
        {JobState::stage_out, ExecutionState::running},
        {JobState::completing, ExecutionState::running},
        {JobState::unknown, ExecutionState::running},
        {JobState::signaling, ExecutionState::terminating},
        {JobState::completed, ExecutionState::succeeded},
        {JobState::failed, ExecutionState::failed},
        {JobState::timeout, ExecutionState::failed},
        {JobState::node_fail, ExecutionState::failed},
        {JobState::out_of_memory, ExecutionState::failed},
        {JobState::boot_fail, ExecutionState::failed},
        {JobState::deadline, ExecutionState::failed},
        {JobState::cancelled, ExecutionState::failed},
        {JobState::preempted, ExecutionState::failed},
        {JobState::revoked, ExecutionState::failed},
    };
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(JobState::unknown) + 1);
    for (const auto& [state, expected] : rows)
        EXPECT_EQ(execution_state(of(state)), expected) << to_string(state);
}

TEST(ExecutionStateOf, APreemptedJobThatIsRequeuedIsQueued) {
    auto evidence = of(JobState::preempted);
    evidence.slurm->reason = "BeginTime";
    EXPECT_EQ(execution_state(evidence), ExecutionState::queued);
}

TEST(ExecutionStateOf, AJobThatIsBeingStoppedIsTerminating) {
    for (const JobState state : {JobState::completing, JobState::running, JobState::configuring}) {
        auto evidence = of(state);
        evidence.termination_requested = true;
        EXPECT_EQ(execution_state(evidence), ExecutionState::terminating) << to_string(state);
    }
    auto ended = of(JobState::cancelled);
    ended.termination_requested = true;
    EXPECT_EQ(execution_state(ended), ExecutionState::failed);
    EXPECT_EQ(failure_code(ended)->code, "JobTerminated");
    EXPECT_EQ(exit_code(ended), std::nullopt);
}

TEST(ExecutionStateOf, OurRecordOfTheEndComesBeforeSlurmsWord) {
    for (const JobState state : {JobState::running, JobState::completing, JobState::cancelled}) {
        auto evidence = of(state);
        evidence.attempt = AttemptView{.number = 1, .exit_code = 0};
        EXPECT_EQ(execution_state(evidence), ExecutionState::succeeded) << to_string(state);
        evidence.attempt = AttemptView{.number = 1, .exit_code = 3};
        EXPECT_EQ(execution_state(evidence), ExecutionState::failed);
        EXPECT_EQ(exit_code(evidence), 3);
    }
    EXPECT_EQ(execution_state(
                  JobEvidence{.slurm = {}, .attempt = AttemptView{.number = 1, .exit_code = 0}}),
              ExecutionState::succeeded);
}

TEST(ExecutionStateOf, TheRecordOfAnEarlierAttemptDoesNotCount) {
    auto evidence = of(JobState::running);
    evidence.slurm->restart_count = 1;
    evidence.attempt = AttemptView{.number = 1, .exit_code = 1};
    EXPECT_EQ(execution_state(evidence), ExecutionState::running);
    evidence.attempt = AttemptView{.number = 2, .exit_code = 0};
    EXPECT_EQ(execution_state(evidence), ExecutionState::succeeded);
    auto requeued = of(JobState::requeued);
    requeued.attempt = AttemptView{.number = 1, .exit_code = 1};
    EXPECT_EQ(execution_state(requeued), ExecutionState::queued);
}

TEST(ExecutionStateOf, AnAttemptWithoutAnEndLeavesTheWordToSlurm) {
    auto evidence = of(JobState::node_fail);
    evidence.attempt = AttemptView{.number = 1, .exit_code = {}};
    EXPECT_EQ(execution_state(evidence), ExecutionState::failed);
    EXPECT_EQ(failure_code(evidence)->code, "NodeFailed");
}

TEST(ExecutionStateOf, TheExitCodeOfALostNodeIsNotTheProgramsOwn) {
    for (const JobState state : {JobState::node_fail, JobState::boot_fail, JobState::preempted}) {
        auto evidence = of(state);
        evidence.slurm->exit_code = 1;
        EXPECT_EQ(exit_code(evidence), std::nullopt) << to_string(state);
    }
    auto failed = of(JobState::failed);
    failed.slurm->exit_code = 1;
    EXPECT_EQ(exit_code(failed), 1);
}

TEST(ExecutionStateOf, AJobThatIsRequeuedWithExpediteWaits) {
    auto evidence = of(job_state("EXPEDITING"));
    evidence.attempt = AttemptView{.number = 1, .exit_code = 1};
    EXPECT_EQ(execution_state(evidence), ExecutionState::queued);
}

TEST(ExecutionStateOf, AJobThatNobodyKnowsHasFailed) {
    EXPECT_EQ(execution_state({}), ExecutionState::failed);
    EXPECT_EQ(failure_code({})->code, "JobLost");
    EXPECT_EQ(exit_code({}), std::nullopt);
    JobEvidence stopped;
    stopped.termination_requested = true;
    EXPECT_EQ(failure_code(stopped)->code, "JobTerminated");
}

TEST(FailureCodeOf, EachEndThatSlurmMadeHasItsOwn) {
    const std::vector<std::pair<JobState, std::string>> rows{
        {JobState::timeout, "JobTimedOut"},
        {JobState::node_fail, "NodeFailed"},
        {JobState::out_of_memory, "JobOutOfMemory"},
        {JobState::boot_fail, "NodeBootFailed"},
        {JobState::deadline, "JobDeadlineExceeded"},
        {JobState::preempted, "JobPreempted"},
        {JobState::cancelled, "JobTerminated"},
        {JobState::revoked, "JobRevoked"},
        {JobState::failed, "JobFailed"},
    };
    for (const auto& [state, code] : rows)
        EXPECT_EQ(failure_code(of(state))->code, code);
    EXPECT_EQ(failure_code(of(JobState::completed)), std::nullopt);
    EXPECT_EQ(failure_code(of(JobState::running)), std::nullopt);
}

using record::EndedBy;

JobEvidence recorded(JobState state, EndedBy by, int exit_code = 143) {
    auto evidence = of(state);
    evidence.attempt = AttemptView{.number = 1, .exit_code = exit_code, .ended_by = by};
    return evidence;
}

TEST(EndedByOf, SlurmsStateSpeaksForAJobThatLeftNoRecord) {
    const std::vector<std::pair<JobState, EndedBy>> rows{
        {JobState::timeout, EndedBy::time_limit},    {JobState::deadline, EndedBy::time_limit},
        {JobState::node_fail, EndedBy::node},        {JobState::boot_fail, EndedBy::node},
        {JobState::out_of_memory, EndedBy::memory},  {JobState::preempted, EndedBy::preemption},
        {JobState::revoked, EndedBy::administrator}, {JobState::cancelled, EndedBy::user},
        {JobState::failed, EndedBy::program},
    };
    for (const auto& [state, by] : rows)
        EXPECT_EQ(ended_by(of(state)), by) << to_string(state);
    EXPECT_EQ(ended_by({}), EndedBy::unknown);
}

// Breaks when a task that was cancelled in the queue is said to be lost.
TEST(EndedByOf, ATaskThatHasLeftItsArrayWasCancelled) {
    JobEvidence evidence;
    evidence.left_array = true;
    EXPECT_EQ(ended_by(evidence), EndedBy::user);
    EXPECT_EQ(failure_code(evidence),
              (FailureCode{"JobTerminated", "The task was cancelled while it waited"}));
    evidence.termination_requested = true;
    EXPECT_EQ(failure_code(evidence)->message, "The specified job has been terminated by the user");
}

// Breaks when a job that Slurm cancels for its dependency is said to have been cancelled by its
// user.
TEST(EndedByOf, AJobWhoseDependencyFailedCouldNotStart) {
    auto evidence = of(JobState::cancelled);
    evidence.slurm->state_text = "CANCELLED";
    evidence.slurm->reason = "DependencyNeverSatisfied";
    EXPECT_EQ(ended_by(evidence), EndedBy::start);
    EXPECT_EQ(failure_code(evidence)->code, "JobDependencyFailed");
    evidence.slurm->reason = "Dependency";
    EXPECT_EQ(ended_by(evidence), EndedBy::user);
    evidence.slurm->from_accounting = true;
    EXPECT_EQ(ended_by(evidence), EndedBy::start);
    evidence.slurm->state_text = "CANCELLED by 1000";
    EXPECT_EQ(ended_by(evidence), EndedBy::user);
    evidence.slurm->state_text = "CANCELLED";
    evidence.slurm->nodes = {"n1"};
    EXPECT_EQ(ended_by(evidence), EndedBy::user);
}

TEST(EndedByOf, AJobThatSlurmCouldNotLaunchEndedAtItsStart) {
    auto evidence = of(JobState::failed);
    evidence.slurm->reason = "JobLaunchFailure";
    EXPECT_EQ(ended_by(evidence), EndedBy::start);
    EXPECT_EQ(failure_code(evidence)->code, "JobLaunchFailed");
    evidence.slurm->exit_code = 3;
    EXPECT_EQ(ended_by(evidence), EndedBy::program);
    EXPECT_EQ(failure_code(evidence)->code, "JobFailed");
}

TEST(EndedByOf, AJobWhoseLogItsNodeCannotOpenNeverBegan) {
    auto evidence = of(JobState::failed);
    evidence.slurm->exit_code = 0;
    evidence.slurm->signal = 53;
    for (const char* reason : {"JobLaunchFailure", ""}) {  // squeue's and sacct's
        evidence.slurm->reason = reason;
        EXPECT_EQ(ended_by(evidence), EndedBy::start);
        EXPECT_EQ(failure_code(evidence)->code, "JobLaunchFailed");
        EXPECT_NE(failure_code(evidence)->message.find("slurm.log"), std::string::npos);
        EXPECT_EQ(exit_code(evidence), std::nullopt);
    }
}

// Breaks when a job whose record the disk did not take is said to have been ended by its program.
TEST(EndedByOf, AProgramThatDidNotBeginEndedNothing) {
    auto evidence = of(JobState::failed);
    evidence.slurm->exit_code = 1;
    EXPECT_EQ(ended_by(evidence), record::EndedBy::program);
    evidence.script_is_ours = true;
    EXPECT_EQ(ended_by(evidence), record::EndedBy::start);
    evidence.attempt = AttemptView{.number = 1, .exit_code = {}, .program_began = false};
    EXPECT_EQ(ended_by(evidence), record::EndedBy::start);
    EXPECT_EQ(failure_code(evidence)->code, "JobStartFailed");
    evidence.attempt->program_began = true;
    EXPECT_EQ(ended_by(evidence), record::EndedBy::program);
}

TEST(EndedByOf, TheRecordKnowsBetterButForACancellation) {
    EXPECT_EQ(ended_by(recorded(JobState::failed, EndedBy::storage)), EndedBy::storage);
    EXPECT_EQ(ended_by(recorded(JobState::completing, EndedBy::time_limit)), EndedBy::time_limit);
    EXPECT_EQ(ended_by(recorded(JobState::timeout, EndedBy::user)), EndedBy::time_limit);
    EXPECT_EQ(ended_by(recorded(JobState::preempted, EndedBy::user)), EndedBy::preemption);
    EXPECT_EQ(ended_by(recorded(JobState::timeout, EndedBy::program, 3)), EndedBy::program);
    EXPECT_EQ(ended_by(recorded(JobState::timeout, EndedBy::program, 0)), EndedBy::program);
}

TEST(EndedByOf, TellsTheUsersCancellationFromAnothers) {
    auto evidence = recorded(JobState::cancelled, EndedBy::user);
    evidence.owner = 1000;
    evidence.slurm->state_text = "CANCELLED by 1000";
    EXPECT_EQ(ended_by(evidence), EndedBy::user);
    evidence.slurm->state_text = "CANCELLED by 0";
    EXPECT_EQ(ended_by(evidence), EndedBy::administrator);
    EXPECT_EQ(failure_code(evidence)->code, "JobCancelled");
    evidence.termination_requested = true;
    EXPECT_EQ(ended_by(evidence), EndedBy::user);
}

TEST(ExitCodeOf, ASignalIsSaidAsAShellSaysIt) {
    auto evidence = of(JobState::failed);
    evidence.slurm->exit_code = 0;
    evidence.slurm->signal = 9;
    EXPECT_EQ(exit_code(evidence), 137);
    auto cancelled = of(JobState::cancelled);
    cancelled.slurm->exit_code = 0;
    EXPECT_EQ(exit_code(cancelled), std::nullopt);
}

// Breaks when a job whose retry is on its way counts as failed.
TEST(ExecutionStateOf, AJobThatRunsAgainHasNotEnded) {
    auto evidence = of(JobState::running);
    evidence.attempt = AttemptView{.number = 1, .exit_code = 75, .runs_again = true};
    EXPECT_EQ(execution_state(evidence), ExecutionState::running);
    evidence.slurm->state = JobState::completing;
    EXPECT_EQ(execution_state(evidence), ExecutionState::running);
    evidence.slurm->state = JobState::pending;
    evidence.slurm->restart_count = 1;
    EXPECT_EQ(execution_state(evidence), ExecutionState::queued);
}

TEST(ExecutionStateOf, AJobThatSlurmDidNotQueueAgainHasFailed) {
    auto evidence = of(JobState::failed);
    evidence.attempt = AttemptView{.number = 1, .exit_code = 75, .runs_again = true};
    EXPECT_EQ(execution_state(evidence), ExecutionState::failed);
    EXPECT_EQ(exit_code(evidence), 75);
}

}  // namespace
}  // namespace batchai::slurm
