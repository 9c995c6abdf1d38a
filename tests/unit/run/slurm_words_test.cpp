// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/slurm_words.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace batchai::run {

TEST(PmixHasLostANode, SlurmstepdsWordsTell) {
    EXPECT_TRUE(pmix_has_lost_a_node(
        "slurmstepd-h3: error:  mpi/pmix_v4: _tcp_connect: h3 [1]: pmixp_dconn_tcp.c:141: Cannot "
        "establish the connection\nsrun: error: h3: task 1: Killed\n"));
    EXPECT_TRUE(pmix_has_lost_a_node(
        "slurmstepd-n2: error:  mpi/pmix_v4: pmixp_p2p_send: n2 [1]: pmixp_utils.c:469: send "
        "failed, rc=1001, exceeded the retry limit\n"));
    EXPECT_FALSE(pmix_has_lost_a_node("rank 1: Cannot establish the connection\n"));
    EXPECT_FALSE(pmix_has_lost_a_node(
        "slurmstepd-n2: error:  mpi/pmix_v4: pmixp_abort_handle: n2 [1]: killed\n"));
}

// The lines below are what srun of Slurm 22.05.8 prints.
TEST(BadEnds, NamesNodeTaskAndExitCode) {
    const auto ends = bad_ends("srun: error: n3: task 2: Exited with exit code 7\n");
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0], (TaskEnd{"n3", 2, std::nullopt, 7}));
}

TEST(LaunchFailures, NameTheTaskOrTheNode) {
    const auto failures = launch_failures(
        "srun: error: task 1 launch failed: Slurmd could not connect IO\n"
        "srun: error: Task launch for StepId=7.2 failed on node h2: Unspecified error\n"
        "srun: error: n3: task 2: Exited with exit code 7\n"
        "task 3 launch failed: says the program\n");
    ASSERT_EQ(failures.size(), 2U);
    EXPECT_EQ(failures[0], (LaunchFailure{1, "", "Slurmd could not connect IO", true}));
    EXPECT_EQ(failures[1], (LaunchFailure{{}, "h2", "Unspecified error", false}));
}

TEST(BadEnds, ReadsSignalsWithAndWithoutACoreDump) {
    const auto ends = bad_ends(
        "srun: error: n1: task 0: Segmentation fault (core dumped)\n"
        "srun: error: n2: tasks 1-2: Killed\n");
    ASSERT_EQ(ends.size(), 3U);
    EXPECT_EQ(ends[0].signal, SIGSEGV);
    EXPECT_EQ(ends[1].signal, SIGKILL);
    EXPECT_EQ(ends[2].task, 2);
    EXPECT_EQ(ends[2].node, "n2");
}

TEST(BadEnds, LeavesOutTheVictimsOfTheAbort) {
    const auto ends = bad_ends(
        "srun: error: n2: task 1: Exited with exit code 3\n"
        "srun: Terminating StepId=7.2\n"
        "slurmstepd: error: *** STEP 7.2 ON n1 CANCELLED AT 2026-11-21T04:00:00 ***\n"
        "srun: error: n1: task 0: Terminated\n");
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0].task, 1);
}

TEST(BadEnds, MarksWhatWasKilledAfterARankAbortedTheStep) {
    const auto ends = bad_ends(
        "slurmstepd-h1: error: *** STEP 27.2 ON h1 CANCELLED AT 2026-11-21T06:21:08 ***\n"
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
        "srun: error: h2: task 1: Killed\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=27.2\n"
        "srun: error: h1: task 0: Exited with exit code 1\n"
        "srun: error: h3: task 2: Exited with exit code 143\n");
    ASSERT_EQ(ends.size(), 3U);
    EXPECT_EQ(ends[0], (TaskEnd{"h2", 1, SIGKILL, std::nullopt, true}));
    EXPECT_EQ(ends[1], (TaskEnd{"h1", 0, std::nullopt, 1, false}));
    EXPECT_TRUE(ends[2].victim);
}

// What srun of Slurm 26.05.5 prints when rank 3 aborts the step through PMI-2.
TEST(BadEnds, GoesOnAfterTasksThatWereOnlyTerminated) {
    const auto ends = bad_ends(
        "srun: error: h3: task 2: Terminated\n"
        "srun: Terminating StepId=1.1\n"
        "srun: error: h4: task 3: Exited with exit code 1\n"
        "srun: error: h1: task 0: Terminated\n"
        "srun: Force Terminated StepId=1.1\n");
    ASSERT_EQ(ends.size(), 3U);
    EXPECT_EQ(ends[0], (TaskEnd{"h3", 2, SIGTERM, std::nullopt, false}));
    EXPECT_EQ(ends[1], (TaskEnd{"h4", 3, std::nullopt, 1, false}));
    EXPECT_TRUE(ends[2].victim);
}

TEST(BadEnds, KnowsNothingFromOtherLines) {
    EXPECT_TRUE(bad_ends("srun: error: Unable to create step: oops\nhello\n").empty());
    EXPECT_TRUE(bad_ends("srun: error: n1: task x: Exited with exit code 1\n").empty());
    EXPECT_TRUE(bad_ends("").empty());
}

TEST(FoundNoController, IsAboutAStepThatThereIsNot) {
    EXPECT_TRUE(found_no_controller(
        "srun: error: Unable to confirm allocation for job 6: Unable to contact slurm controller "
        "(connect failure)\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job "
        "6\n"));
    EXPECT_TRUE(
        found_no_controller("srun: error: Unable to create step for job 6: Unable to contact "
                            "slurm controller (connect failure)\n"));
    // The step may be there.
    EXPECT_FALSE(
        found_no_controller("srun: error: Unable to create step for job 6: Socket timed out "
                            "on send/recv operation\n"));
    EXPECT_FALSE(
        found_no_controller("srun: error: Unable to create step for job 6: Job/step already "
                            "completing or completed\n"));
    EXPECT_FALSE(found_no_controller("training says: Unable to contact slurm controller\n"));
    EXPECT_FALSE(found_no_controller(""));
}

TEST(EndOfStep, KnowsMemoryAndLostNodes) {
    using record::EndedBy;
    EXPECT_EQ(end_of_step("srun: error: n1: task 0: Out Of Memory\n"), EndedBy::memory);
    EXPECT_EQ(end_of_step("slurmstepd-h1: error: Detected 1 oom_kill event in StepId=5.0. Some of "
                          "the step tasks have been OOM Killed.\n"),
              EndedBy::memory);
    EXPECT_EQ(end_of_step("srun: error: Node failure on h2\n"), EndedBy::node);
    EXPECT_EQ(end_of_step("srun: error: Aborting, io error and missing step on node 3\n"),
              EndedBy::node);
    EXPECT_EQ(end_of_step("srun: error: n1: task 0: Killed\n"), std::nullopt);
    EXPECT_THAT(
        failed_nodes("srun: error: n1: task 0: Killed\nsrun: error: Node failure on h[2-3]\n"
                     "srun: error: Node failure on n9\n"),
        testing::ElementsAre("h2", "h3", "n9"));
    EXPECT_THAT(failed_nodes("srun: error: n1: task 0: Killed\n"), testing::IsEmpty());
}

TEST(MemoryNotice, HasTheNodeAndSlurmsWords) {
    const std::string line =
        "slurmstepd-h2: error: StepId=13.1 exceeded memory limit (532496384 > 314572800), being "
        "killed";
    EXPECT_EQ(memory_notice("step 7\n" + line +
                                "\nslurmstepd-h1: error: *** STEP 13.1 ON h1 "
                                "CANCELLED AT 2026-11-23T00:55:06 ***\n",
                            "13"),
              (MemoryNotice{"h2", line}));
    const std::string without_node =
        "slurmstepd: error: StepId=13.1 exceeded virtual memory limit (2 > 1), being killed";
    EXPECT_EQ(memory_notice(without_node, "13"), (MemoryNotice{"", without_node}));
}

TEST(MemoryNotice, MayBeginWithATime) {
    const std::string notice =
        "[2026-11-23T00:55:06.001] error: StepId=13.1 exceeded memory limit (2 > 1), being killed";
    EXPECT_EQ(memory_notice("step 7\n[INFO] ok " + notice, "13"), (MemoryNotice{"", notice}));
    EXPECT_FALSE(memory_notice("StepId=13.1 exceeded memory limit (2 > 1)", "13"));
}

TEST(MemoryNotice, MayFollowAnUnfinishedLine) {
    const std::string notice =
        "slurmstepd-h2: error: StepId=13.1 exceeded memory limit (2 > 1), being killed";
    EXPECT_EQ(memory_notice("slurmstepd: \r 45%|####     | " + notice, "13"),
              (MemoryNotice{"h2", notice}));
}

TEST(MemoryNotice, IsNoProgramsOwnAndNotOfAnotherJob) {
    EXPECT_FALSE(
        memory_notice("it exceeded memory limit (2 > 1)\nslurmstepd: error: other\n", "13"));
    EXPECT_FALSE(memory_notice("", "13"));
    EXPECT_FALSE(memory_notice(
        "slurmstepd-h2: error: StepId=3.1 exceeded memory limit (2 > 1), being killed", "13"));
}

TEST(WithoutEnds, LeavesOutOnlyTheTasksAndNodesThatAreNamed) {
    const std::string said =
        "srun: error: n2: tasks 2-3: Killed\n"
        "srun: error: n1: tasks 1,4: Exited with exit code 3\n"
        "srun: something else\n"
        "srun: error: Node failure on n2\n";
    EXPECT_EQ(without_ends(said, {1, 2, 3}, {"n2"}),
              "srun: error: n1: tasks 1,4: Exited with exit code 3\nsrun: something else\n");
    EXPECT_EQ(without_ends(said, {2}, {"n3"}), said);
    EXPECT_EQ(without_ends("", {2}, {}), "");
}

// Breaks when the memory of a task that the others have outlived is blamed for what comes later.
TEST(WithoutEnds, LeavesOutWhySlurmHasKilledTheTasks) {
    const std::string notice =
        "slurmstepd: error: Detected 1 oom_kill event in StepId=5.0. Some of the step tasks have "
        "been OOM Killed.\n";
    const std::string of_2 = "srun: error: n2: task 2: Out Of Memory\n";
    const std::string of_4 = "srun: error: n3: task 4: Killed\n";
    EXPECT_EQ(without_ends(notice + of_2, {2}, {}), "");
    EXPECT_EQ(without_ends(of_2 + notice, {2}, {}), "");
    EXPECT_EQ(without_ends(notice + of_2 + of_4, {2}, {}), of_4);
    EXPECT_EQ(without_ends(of_2 + notice + of_4, {2}, {}), of_4);
    EXPECT_EQ(without_ends(notice + of_4, {4}, {}), "");
    // Nobody has told yet of the task that it is about, or that task is not among these.
    EXPECT_EQ(without_ends(notice, {2}, {}), notice);
    EXPECT_EQ(without_ends(of_4 + notice + of_2, {4}, {}), notice + of_2);
    EXPECT_EQ(without_ends("srun: error: n3: task 4: Exited with exit code 1\n" + notice, {4}, {}),
              notice);
    EXPECT_EQ(without_ends(notice + of_2 + notice + "srun: error: n1: task 0: Killed\n" + of_4,
                           {2, 4}, {}),
              "srun: error: n1: task 0: Killed\n");
}

TEST(WithoutEnds, KnowsTheNodeOfANoticeThatNamesIt) {
    const std::string of_n1 = "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=5.0.\n";
    const std::string of_n2 = "slurmstepd-n2: error: Detected 1 oom_kill event in StepId=5.0.\n";
    const std::string of_0 = "srun: error: n1: task 0: Killed\n";
    EXPECT_EQ(without_ends(of_n1 + of_n2 + "srun: error: n2: task 2: Killed\n" + of_0, {2}, {}),
              of_n1 + of_0);
}

TEST(BadEndsOf, AreThoseOfTheTasksThatAreNamed) {
    const auto ends = bad_ends_of(
        "srun: error: n2: tasks 2-3: Killed\n"
        "srun: Terminating StepId=7.2\n"
        "srun: error: n1: task 0: Exited with exit code 3\n",
        {0, 3});
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[0].task, 3);
    EXPECT_EQ(ends[1].exit_code, 3);
}

// What slurmstepd of Slurm 22.05.8 wrote.
TEST(EndOfJob, KnowsEachNotice) {
    using record::EndedBy;
    const std::string cancelled =
        "slurmstepd-h1: error: *** JOB 4 ON h1 CANCELLED AT 2026-11-22T07:03:03";
    const auto of = [&](const std::string& rest) { return end_of_job(cancelled + rest, "4"); };
    EXPECT_EQ(of(" ***\n"), EndedBy::user);
    EXPECT_EQ(of(" DUE TO TIME LIMIT ***\n"), EndedBy::time_limit);
    EXPECT_EQ(of(" DUE TO PREEMPTION ***\n"), EndedBy::preemption);
    EXPECT_EQ(of(" DUE TO JOB REQUEUE ***\n"), EndedBy::requeue);
    EXPECT_EQ(of(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"), EndedBy::node);
    EXPECT_EQ(of(" DUE TO JOB REQUEUE ***\nsrun: x\n" + cancelled + " ***\n"), EndedBy::user);
}

// What slurmstepd of Slurm 26.05 writes.
TEST(EndOfJob, KnowsNoticesWithATime) {
    const std::string notice =
        "[2026-11-22T07:03:03.101] error: *** JOB 4 ON h1 CANCELLED AT 2026-11-22T07:03:03 DUE TO "
        "TIME LIMIT ***\n";
    EXPECT_EQ(end_of_job(notice, "4"), record::EndedBy::time_limit);
    EXPECT_FALSE(end_of_job("[1] I saw " + notice, "4"));
}

TEST(EndOfJob, IsNoStepsNorAnotherJobsNorAProgramsOwn) {
    EXPECT_FALSE(end_of_job("slurmstepd: error: *** STEP 4.0 ON h1 CANCELLED AT x ***\n", "4"));
    EXPECT_FALSE(end_of_job("slurmstepd: error: *** JOB 44 ON h1 CANCELLED AT x ***\n", "4"));
    EXPECT_FALSE(end_of_job("I saw: slurmstepd: error: *** JOB 4 ON h1 CANCELLED AT x ***\n", "4"));
    EXPECT_FALSE(end_of_job("", "4"));
}

}  // namespace batchai::run
