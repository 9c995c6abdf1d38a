// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/job_group.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "spank/job_note.hpp"
#include "tests/spank/hooks.hpp"

namespace batchai::spank {
namespace {

namespace fs = std::filesystem;

TEST(HelperGroup, IsBesideTheStepsOfTheJob) {
    EXPECT_EQ(
        helper_group_in("1:freezer:/\n0::/system.slice/h1_slurmstepd.scope/job_7/step_0/slurm\n"),
        "/system.slice/h1_slurmstepd.scope/job_7/batchai");
    EXPECT_EQ(helper_group_in("0::/system.slice/slurmstepd.scope/job_7/step_extern/slurm\n"),
              "/system.slice/slurmstepd.scope/job_7/batchai");
    EXPECT_EQ(helper_group_in("0::/system.slice/slurmstepd.scope/s7XKQ2M04WG000/step_0/slurm\n"),
              "/system.slice/slurmstepd.scope/s7XKQ2M04WG000/batchai");
}

TEST(HelperGroup, IsNoneWhereSlurmDoesNotUseVersion2) {
    for (const char* text :
         {"", "0::/\n", "0::/system.slice/slurmd.service\n", "0::/user.slice/session-1.scope",
          "4:memory:/slurm/uid_0/job_7/step_0/slurm\n0::/system.slice/slurmd.service\n",
          "0::/step_0/slurm\n", "0::/x/job_7/step_0/user/task_0\n", "0::/slurm\n", "0::slurm\n"})
        EXPECT_EQ(helper_group_in(text), "") << text;
}

// Directories behave as groups do: one with something in it stays.
class LeftGroups : public testing::Test {
  protected:
    fs::path group_of(const std::string& job) { return scopes_ / job / "batchai"; }

    fake::Scratch scratch_;
    fs::path scopes_ = scratch_.path() / "slurmstepd.scope";
    fs::path notes_ = scratch_.path() / "notes";
};

TEST_F(LeftGroups, AreRemovedAtOnceIfEmpty) {
    fs::create_directories(notes_);
    fs::create_directories(group_of("job_7"));
    leave_group(group_of("job_7"), notes_, 7);
    EXPECT_FALSE(fs::exists(group_of("job_7")));
    EXPECT_TRUE(fs::exists(scopes_ / "job_7")) << "it is Slurm that removes it";
    EXPECT_TRUE(fs::is_empty(notes_));
}

TEST_F(LeftGroups, AreRemovedWithTheJobsOnceEmpty) {
    fs::create_directories(notes_);
    fs::create_directories(group_of("job_7") / "process");
    leave_group(group_of("job_7"), notes_, 7);
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(group_of("job_7"))) << "somebody is in it";
    fs::remove(group_of("job_7") / "process");
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(scopes_ / "job_7"));
    EXPECT_TRUE(fs::exists(scopes_));
    EXPECT_TRUE(fs::is_empty(notes_));
}

// Breaks when the epilog of another job takes the group of a job that was requeued to the same
// node.
TEST_F(LeftGroups, StayWhileTheJobIsHere) {
    fs::create_directories(group_of("job_7") / "process");
    ASSERT_TRUE(note_job(notes_, 7));
    leave_group(group_of("job_7"), notes_, 7);
    fs::remove(group_of("job_7") / "process");
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(group_of("job_7")));
    ASSERT_TRUE(take_note_of_job(notes_, 7));
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(scopes_ / "job_7"));
}

TEST_F(LeftGroups, OfAJobThatHasStepsLeaveItsGroup) {
    fs::create_directories(notes_);
    fs::create_directories(group_of("job_7") / "process");
    fs::create_directories(scopes_ / "job_7" / "step_1");
    leave_group(group_of("job_7"), notes_, 7);
    fs::remove(group_of("job_7") / "process");
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(group_of("job_7")));
    EXPECT_TRUE(fs::exists(scopes_ / "job_7" / "step_1"));
}

TEST_F(LeftGroups, OfOtherFilesAreNotLookedFor) {
    fs::create_directories(notes_);
    for (const char* name : {"x.group", ".group", "7x.group", "7.group.new"})
        std::ofstream(notes_ / name) << scopes_.string();
    fs::create_directories(scopes_);
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(scopes_));
    remove_left_groups(notes_ / "missing");
}

TEST_F(LeftGroups, AreEnteredByOneWrite) {
    const fs::path group = group_of("job_7");
    fs::create_directories(group);
    std::ofstream(group / "cgroup.procs") << "";
    const std::string procs = group / "cgroup.procs";
    EXPECT_TRUE(enter_group(group.c_str(), procs.c_str()));
    std::string written;
    std::ifstream(procs) >> written;
    EXPECT_EQ(written, "0");
    EXPECT_FALSE(enter_group((scopes_ / "none/batchai").c_str(), procs.c_str()));
    EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace batchai::spank
