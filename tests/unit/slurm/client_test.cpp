// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/client.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ScrubbedEnvironment, KeepsWhichSlurmToTalkToAndDropsWhatChangesAnswers) {
    setenv("SQUEUE_FORMAT", "%i", 1);
    setenv("SLURM_CLUSTERS", "other", 1);
    setenv("SBATCH_PARTITION", "nope", 1);
    setenv("SLURM_CONF", "/etc/slurm/other.conf", 1);
    const auto environment = scrubbed_environment();
    EXPECT_THAT(environment, Contains("SLURM_CONF=/etc/slurm/other.conf"));
    EXPECT_THAT(environment, Each(Not(StartsWith("SQUEUE_"))));
    EXPECT_THAT(environment, Each(Not(StartsWith("SLURM_CLUSTERS"))));
    EXPECT_THAT(environment, Each(Not(StartsWith("SBATCH_"))));
    for (const char* name : {"SQUEUE_FORMAT", "SLURM_CLUSTERS", "SBATCH_PARTITION", "SLURM_CONF"})
        unsetenv(name);
}

TEST(ClientArguments, WhatIsNoJobIdNeverReachesSlurm) {
    const Client client;
    EXPECT_EQ(JobId::parse("12").value().text(), "12");
    EXPECT_EQ(JobId::parse("12_3").value().without_task(), "12");
    for (const char* id : {"", "-u", "--user=root", "1,2", "12;", "99999999999", "12_", "_3",
                           "12_3_4", "12_[0-3]", "12_-3", "12+1"}) {
        EXPECT_FALSE(JobId::parse(id)) << id;
        EXPECT_FALSE(client.jobs({id})) << id;
    }
    EXPECT_TRUE(client.jobs({}).value().empty());
}

// Programs of the test's own in the place of Slurm's commands.
class FakeSlurm : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "slurm.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
        path_ = std::getenv("PATH");
        setenv("PATH", (root_.string() + ":" + path_).c_str(), 1);
    }
    void TearDown() override {
        setenv("PATH", path_.c_str(), 1);
        std::filesystem::remove_all(root_);
    }

    void command(const std::string& name, const std::string& script) const {
        const auto file = root_ / name;
        std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    [[nodiscard]] std::string content(const std::string& name) const {
        std::ostringstream text;
        text << std::ifstream(root_ / name).rdbuf();
        return text.str();
    }

    std::filesystem::path root_;
    std::string path_;
};

using Clock = std::chrono::steady_clock;

constexpr const char* down = "echo 'Slurmctld(primary) at h1 is DOWN'; exit 1";
constexpr const char* up = "echo 'Slurmctld(primary) at h1 is UP'";

TEST_F(FakeSlurm, AStoppedControllerIsToldWithinSeconds) {
    command("squeue", "exec sleep 60");
    for (const char* ping : {down, "exec sleep 60"}) {
        command("scontrol", ping);
        const auto start = Clock::now();
        const auto jobs = Client::interactive().jobs({"1"});
        ASSERT_FALSE(jobs);
        EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
        EXPECT_EQ(jobs.error().what, "Slurm's controller does not answer");
        EXPECT_THAT(jobs.error().hint, ::testing::HasSubstr("scontrol ping"));
        EXPECT_FALSE(Client().ping());
    }
}

TEST_F(FakeSlurm, ABusyControllerGetsItsTime) {
    command("squeue",
            "sleep 2; echo "
            "'7|RUNNING|None|main|alice|0|Unknown|Unknown|Unknown|Unknown|0|h1|N/A|N/A|'");
    command("scontrol", up);
    const auto jobs = Client::interactive().jobs({"7"});
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_EQ(jobs->at("7").state, JobState::running);
}

TEST_F(FakeSlurm, AProgramThatGivesUpByItselfTellsTheSame) {
    command(
        "squeue",
        "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; "
        "exit 1");
    EXPECT_EQ(Client().jobs({"1"}).error().what, "Slurm's controller does not answer");
}

// Breaks when an outage of accounting hides what the queue knows, or passes for a refusal.
TEST_F(FakeSlurm, WhatTheQueueKnowsNeedsNoAccounting) {
    command("squeue",
            "echo "
            "'7|RUNNING|None|main|alice|0|Unknown|Unknown|Unknown|Unknown|0|h1|N/A|N/A|'");
    command("sacct",
            "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1");
    EXPECT_TRUE(Client().jobs({"7"}));
    const auto refused = Client().jobs({"7", "8"});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, "Slurm's accounting does not answer");
    EXPECT_EQ(refused.error().exit_code, base::ExitCode::failed);
    std::optional<base::Error> unaccounted;
    const auto jobs = Client().jobs({"7", "8"}, {}, &unaccounted);
    ASSERT_TRUE(jobs);
    EXPECT_TRUE(jobs->contains("7"));
    EXPECT_TRUE(unaccounted);
}

// Breaks when a job that has just ended cannot be deleted, or a refusal passes for success.
TEST_F(FakeSlurm, WhatAJobThatHasEndedNoLongerNeedsIsNoFault) {
    const JobId job = JobId::parse("7").value();
    const auto refuse = [&](const std::string& name, const std::string& message) {
        command(name, "echo '" + name + ": error: " + message + "' >&2; exit 1");
    };
    refuse("scancel", "Kill job error on job id 7: Invalid job id specified");
    EXPECT_TRUE(Client().cancel(job));
    refuse("scancel", "Kill job error on job id 7: Access/permission denied");
    EXPECT_EQ(Client().cancel(job).error().exit_code, base::ExitCode::refused);
    refuse("scontrol", "Job is no longer pending execution");
    EXPECT_TRUE(Client().release(job));
    EXPECT_THAT(Client().requeue(job).error().what, ::testing::HasSubstr("no longer pending"));
    refuse("scontrol", "Job is pending execution for job 7");
    EXPECT_TRUE(Client().requeue(job));
    // The nodes may have been refused.
    EXPECT_EQ(Client().requeue_without(job, "h1").error().exit_code, base::ExitCode::refused);
    refuse("squeue", "slurm_load_jobs error: Invalid job id specified");
    EXPECT_FALSE(Client().is_queued(job).value());
    refuse("sacct", "Slurm accounting storage is disabled");
    EXPECT_FALSE(Client().accounts(job).value());
    EXPECT_TRUE(Client().jobs({"7"}).value().empty());
}

// Breaks when a running job's directories can be taken for those of one that has ended.
TEST_F(FakeSlurm, TheCallersJobsAreThoseOfAllPartitions) {
    command("squeue", "case \"$*\" in *--all*--user=*) printf '12\\n 7 \\n';; esac");
    EXPECT_THAT(Client().queued_jobs_of_caller().value(), ::testing::ElementsAre("12", "7"));
    command("squeue", "echo 'squeue: error: no answer' >&2; exit 1");
    EXPECT_FALSE(Client().queued_jobs_of_caller());
}

// Breaks when a refusal of sbatch's is taken for a signal because of its exit code.
TEST_F(FakeSlurm, ASubmissionThatEndsWithALargeCodeHasBeenRefusedAndNotKilled) {
    command("sbatch", "echo 'sbatch: error: the plugin says no' >&2; exit 255");
    EXPECT_THAT(Client().submit({}, "job.sh", scrubbed_environment()).error().text(),
                ::testing::HasSubstr("the plugin says no"));
    // A wrapper of the site's passes the end of the real one on.
    for (const char* ended : {"kill -KILL $$", "exit 137"}) {
        command("sbatch", ended);
        EXPECT_THAT(Client().submit({}, "job.sh", scrubbed_environment()).error().what,
                    ::testing::HasSubstr("killed by signal 9"));
    }
}

TEST_F(FakeSlurm, OfManyJobsTheUsersQueueIsReadAtOnceAndTheRestInPortions) {
    const std::string log = root_.string() + "/asked";
    // The user's queue has the first job, the whole one the last.
    command(
        "squeue",
        "for word; do case $word in --user=*|--jobs=*) echo ${#word} ${word%%[0-9]*} >> " + log +
            ";; esac; done\n"
            "case \"$*\" in *--user=*) id=1;; *,30000\\ *) id=30000;; *) exit 0;; esac\n"
            "echo "
            "\"$id|COMPLETED|None|main|alice|0|Unknown|Unknown|Unknown|Unknown|0|h1|N/A|N/A|\"");
    command("sacct", "echo sacct >> " + log);
    std::vector<std::string> ids;
    for (int id = 1; id <= 30000; ++id)
        ids.push_back(std::to_string(id));
    const auto jobs = Client().jobs(ids);
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_EQ(jobs->size(), 2U);
    EXPECT_TRUE(jobs->contains("1"));
    EXPECT_TRUE(jobs->contains("30000"));
    const std::string asked = content("asked");
    EXPECT_THAT(asked, ::testing::HasSubstr("--user="));
    EXPECT_EQ(std::count(asked.begin(), asked.end(), '\n'), 1 + 2 + 2) << asked;
}

TEST_F(FakeSlurm, OfManyJobsSinceATimeTheAccountsAreReadAtOnceToo) {
    const std::string log = root_.string() + "/asked";
    command("squeue",
            "echo squeue \"$3\" | cut -c-14 >> " + log +
                "\ncase \"$*\" in *--user=*) ;; *) exit 0;; esac\n"
                "echo '1|RUNNING|None|main|alice|0|Unknown|Unknown|Unknown|Unknown|0|h1|N/A|N/A|'");
    // The accounts know an older state of the first job, too; the queue's word is newer.
    command(
        "sacct",
        "echo sacct $6 $7 >> " + log +
            "\nfor id in 1 2000; do echo "
            "\"$id|COMPLETED|None|main|alice|0:0|Unknown|Unknown|Unknown|Unknown|h1|$id\"; done");
    std::vector<std::string> ids;
    for (int id = 1; id <= 2000; ++id)
        ids.push_back(std::to_string(id));
    const auto all =
        Client().jobs_of_caller(*base::from_iso8601("2026-11-21T12:00:00+00:00")).value();
    const auto jobs = Client().jobs(ids, all);
    ASSERT_TRUE(jobs) << jobs.error().text();
    ASSERT_EQ(jobs->size(), 2U);
    EXPECT_EQ(jobs->at("1").state, JobState::running);
    EXPECT_EQ(jobs->at("2000").state, JobState::completed);
    EXPECT_THAT(content("asked"), ::testing::HasSubstr("--starttime=2026-11-20T"));
}

TEST_F(FakeSlurm, CommentsAreAskedForWithADelimiterThatNobodyKnows) {
    const std::string log = root_.string() + "/asked";
    command("sacct",
            "for word; do case $word in --delimiter=*) d=${word#*=};; esac; done\n"
            "echo \"$*\" >> " +
                log +
                "\n"
                "echo \"7${d}bob${d}2026-11-21T12:00:00${d}Unknown${d}h1${d}x word=1|2\"\n"
                "echo '8|alice|2026-11-21T12:00:00|Unknown|h1|word=3'");
    const auto day = *base::from_iso8601("2026-11-21T12:00:00");
    const auto ask = [&] {
        return Client().commented_runs("word=", day, day + std::chrono::hours(24),
                                       std::chrono::seconds(20));
    };
    const auto runs = ask();
    ASSERT_TRUE(runs) << runs.error().text();
    ASSERT_EQ(runs->size(), 1U);
    EXPECT_EQ(runs->front().user, "bob");
    EXPECT_EQ(runs->front().comment, "x word=1|2");
    EXPECT_TRUE(ask());
    std::istringstream asked(content("asked"));
    std::string first;
    std::string second;
    std::getline(asked, first);
    std::getline(asked, second);
    EXPECT_THAT(first, ::testing::HasSubstr("--allusers --starttime=2026-11-21T12:00:00 "
                                            "--endtime=2026-11-22T12:00:00 "));
    EXPECT_NE(first, second);
}

TEST_F(FakeSlurm, CommentsAreNotWaitedForForLong) {
    command("sacct", "sleep 60");
    const auto runs = Client().commented_runs("word=", base::Time(), base::Time(),
                                              std::chrono::milliseconds(100));
    ASSERT_FALSE(runs);
    EXPECT_EQ(runs.error().exit_code, base::ExitCode::timed_out);
}

TEST_F(FakeSlurm, OfAUserWithTooManyOtherJobsTheAccountsAreReadById) {
    command("squeue", "exit 0");
    command("sacct",
            "case \"$*\" in *--user=*) echo 'too much' >&2; exit 1;; esac\n"
            "echo '2000|COMPLETED|None|main|alice|0:0|Unknown|Unknown|Unknown|Unknown|h1|2000'");
    std::vector<std::string> ids;
    for (int id = 1; id <= 2000; ++id)
        ids.push_back(std::to_string(id));
    const auto since = *base::from_iso8601("2026-11-21T12:00:00+00:00");
    const auto all = Client().jobs_of_caller(since).value();
    EXPECT_TRUE(all.empty());
    const auto jobs = Client().jobs(ids, all);
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_TRUE(jobs->contains("2000"));
    command("sacct", "echo 'no database' >&2; exit 1");
    EXPECT_FALSE(Client().jobs(ids, all));
}

}  // namespace
}  // namespace batchai::slurm
