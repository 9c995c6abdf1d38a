// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/array_view.hpp"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::status {
namespace {

using slurm::ExecutionState;
using slurm::JobState;
using ::testing::ElementsAre;

slurm::JobStatus status(std::string id, JobState state, std::vector<int> tasks) {
    slurm::JobStatus out;
    out.id = std::move(id);
    out.state = state;
    out.array_id = "12";
    out.array_tasks = std::move(tasks);
    return out;
}

store::Job array_job() {
    store::Job job;
    job.slurm_job_id = "12";
    job.is_array = true;
    job.array = "0-5%2";
    return job;
}

record::Attempt ended_attempt(int number, int exit_code) {
    record::Attempt attempt;
    attempt.number = number;
    attempt.start = base::now() - std::chrono::minutes(2);
    attempt.end = base::now() - std::chrono::minutes(1);
    attempt.exit_code = exit_code;
    return attempt;
}

TEST(ArrayStatuses, ATaskThatHasBegunHasItsOwn) {
    slurm::Jobs jobs;
    jobs["12"] = status("12", JobState::pending, {3, 4, 5});
    jobs["13"] = status("13", JobState::running, {3});
    jobs["99"].id = "99";
    const auto statuses = array_statuses(jobs);
    ASSERT_EQ(statuses.size(), 1U);
    EXPECT_EQ(statuses.at("12").at(3)->id, "13");
    EXPECT_EQ(statuses.at("12").at(5)->id, "12");
}

TEST(ArrayStatuses, ThousandsThatWaitShareOneWithoutTheirNumbers) {
    slurm::Jobs jobs;
    jobs["12"] = status("12", JobState::pending, {3, 4, 5});
    const auto statuses = array_statuses(jobs);
    EXPECT_EQ(statuses.at("12").at(3), statuses.at("12").at(5));
    EXPECT_EQ(statuses.at("12").at(3)->array_tasks.capacity(), 0U);
}

TEST(RunsOf, TheLastArrayThatHasTheTaskCounts) {
    store::Job job = array_job();
    job.array_runs = {{.slurm_job_id = "20", .tasks = "1,3-4", .attempts_before = 1},
                      {.slurm_job_id = "30", .tasks = "3,77", .attempts_before = 2}};
    const auto runs = runs_of(job, {0, 1, 3, 4});
    std::vector<std::string> ids;
    for (const TaskRun& run : runs)
        ids.push_back(run.slurm_job_id + "+" + std::to_string(run.attempts_before));
    EXPECT_THAT(ids, ElementsAre("12+0", "20+1", "30+2", "20+1"));
    EXPECT_THAT(slurm_ids_of(job), ElementsAre("12", "20", "30"));
}

TEST(EvidenceOf, AnEarlierArraysAttemptIsOver) {
    std::optional<record::Attempt> attempt = ended_attempt(2, 1);
    const auto evidence =
        evidence_of(array_job(), status("21", JobState::pending, {1}), attempt, 2);
    EXPECT_FALSE(attempt);
    EXPECT_EQ(execution_state(evidence), ExecutionState::queued);
}

TEST(EvidenceOf, AttemptsOfALaterArrayAreCountedOn) {
    // Attempt 3 is the first of the second array, so that a restart count of 0 belongs to it.
    std::optional<record::Attempt> attempt = ended_attempt(3, 0);
    auto now = status("21", JobState::completed, {1});
    EXPECT_EQ(execution_state(evidence_of(array_job(), now, attempt, 2)),
              ExecutionState::succeeded);
    ASSERT_TRUE(attempt);
    // It was requeued since then.
    now = status("21", JobState::pending, {1});
    now.restart_count = 1;
    EXPECT_EQ(execution_state(evidence_of(array_job(), now, attempt, 2)), ExecutionState::queued);
    EXPECT_FALSE(attempt);
}

// Breaks when an attempt of an earlier array hides that Slurm has forgotten a task that waited.
TEST(ViewTasks, ATaskThatLeftItsSecondArrayWhileItWaitedWasCancelled) {
    const Scratch scratch;
    const store::Store store(scratch.path());
    store::Job job = array_job();
    job.key = {"g", "w", "e", "sweep"};
    job.array = "1-2";
    job.array_runs = {{.slurm_job_id = "20", .tasks = "1-2", .attempts_before = 1}};
    const record::JobFiles files = store.job_files(job.key).array_task(1);
    ASSERT_TRUE(base::make_directories(files.attempts()));
    ASSERT_TRUE(base::write_atomically(files.attempt(1), record::to_json(ended_attempt(1, 3))));
    auto other = status("20", JobState::pending, {2});
    other.array_id = "20";
    const auto tasks = view_tasks(store, job, array_statuses({{"20", other}}));
    ASSERT_TRUE(tasks) << tasks.error().text();
    ASSERT_EQ(tasks->size(), 2U);
    EXPECT_FALSE(tasks->front().attempt);
    EXPECT_TRUE(tasks->front().evidence.left_array);
    EXPECT_FALSE(tasks->back().evidence.left_array);
}

TEST(Tasks, WithoutAWordOfSlurmNeedAccountingUnlessTheirRecordHasEnded) {
    std::vector<TaskView> tasks(1);
    EXPECT_TRUE(needs_accounting(tasks));
    tasks[0].evidence.attempt = slurm::AttemptView{.number = 1, .exit_code = 3};
    EXPECT_FALSE(needs_accounting(tasks));
    tasks[0].evidence.attempt->exit_code.reset();
    EXPECT_TRUE(needs_accounting(tasks));
    tasks[0].evidence.slurm = slurm::JobStatus();
    EXPECT_FALSE(needs_accounting(tasks));
}

TEST(Representative, IsTheFirstInTheStateOfTheJob) {
    std::vector<TaskView> tasks(4);
    for (int i = 0; i < 4; ++i)
        tasks[static_cast<std::size_t>(i)].number = i;
    tasks[0].state = ExecutionState::succeeded;
    tasks[1].state = ExecutionState::failed;
    tasks[2].state = ExecutionState::failed;
    tasks[3].state = ExecutionState::queued;
    EXPECT_EQ(representative(tasks, ExecutionState::failed).number, 1);
    // None runs, but some have ended.
    EXPECT_EQ(representative(tasks, ExecutionState::running).number, 3);
}

}  // namespace
}  // namespace batchai::status
