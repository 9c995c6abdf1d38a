// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/job_group.hpp"

#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST(PlacesOfGroup, AreBelowTheMountsThatShowIt) {
    const char* const mounts =
        "24 30 0:22 / /proc rw - proc proc rw\n"
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
        "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 23 0:26 /../other /elsewhere rw - cgroup2 cgroup2 rw\n"
        "33 23 0:26 /pod /cgroup rw - cgroup2 cgroup2 rw\n";
    using testing::ElementsAre;
    EXPECT_THAT(places_of_group(mounts, "/x/job_7/batchai"),
                ElementsAre("/sys/fs/cgroup/x/job_7/batchai"));
    EXPECT_THAT(places_of_group(mounts, "/pod/x/job_7/batchai"),
                ElementsAre("/sys/fs/cgroup/pod/x/job_7/batchai", "/cgroup/x/job_7/batchai"));
    EXPECT_THAT(places_of_group(mounts, "/pods/x/job_7/batchai"),
                ElementsAre("/sys/fs/cgroup/pods/x/job_7/batchai"));
    EXPECT_THAT(places_of_group("30 - cgroup2 \n\n", "/x"), ElementsAre());
}

// Directories behave as groups do: one with something in it stays.
class LeftGroups : public testing::Test {
  protected:
    void SetUp() override { fs::create_directories(notes_); }
    [[nodiscard]] JobGroup group_of(const std::string& number) const {
        const fs::path path = scopes_ / ("job_" + number) / "batchai";
        return {
            .path = path, .procs = path / "cgroup.procs", .note = notes_ / (number + ".a.group")};
    }
    // A step has been in the group, and something of it still is.
    [[nodiscard]] JobGroup used(const std::string& number) const {
        const JobGroup group = group_of(number);
        fs::create_directories(fs::path(group.path));
        std::ofstream(group.procs) << "";
        EXPECT_TRUE(enter_group(group));
        return group;
    }
    static void become_empty(const JobGroup& group) { fs::remove(group.procs); }

    fake::Scratch scratch_;
    fs::path scopes_ = scratch_.path() / "slurmstepd.scope";
    fs::path notes_ = scratch_.path() / "notes";
};

TEST_F(LeftGroups, AreEnteredByOneWriteAfterANote) {
    const JobGroup group = used("7");
    std::string text;
    std::ifstream(group.procs) >> text;
    EXPECT_EQ(text, "0");
    std::ifstream(group.note) >> text;
    EXPECT_EQ(text, group.path);
    JobGroup nowhere = group_of("8");
    EXPECT_FALSE(enter_group(nowhere));
    EXPECT_EQ(errno, ENOENT);
}

TEST_F(LeftGroups, AreRemovedAtOnceIfEmpty) {
    const JobGroup group = used("7");
    leave_group(group);
    EXPECT_TRUE(fs::exists(group.path)) << "somebody is in it";
    become_empty(group);
    leave_group(group);
    EXPECT_FALSE(fs::exists(group.path));
    EXPECT_TRUE(fs::exists(scopes_ / "job_7")) << "it is Slurm that removes it";
}

TEST_F(LeftGroups, AreRemovedWithTheJobsOnceEmpty) {
    const JobGroup group = used("7");
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(group.path)) << "somebody is in it";
    become_empty(group);
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(scopes_ / "job_7"));
    EXPECT_TRUE(fs::exists(scopes_));
    EXPECT_TRUE(fs::is_empty(notes_));
}

// Breaks when the epilog of another job takes the group of a job that was requeued to the same
// node.
TEST_F(LeftGroups, StayWhileTheJobIsHere) {
    ASSERT_TRUE(note_job(notes_, 7));
    const JobGroup group = used("7");
    become_empty(group);
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(group.path));
    ASSERT_TRUE(take_note_of_job(notes_, 7));
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(scopes_ / "job_7"));
}

TEST_F(LeftGroups, OfAJobThatHasStepsLeaveItsGroup) {
    const JobGroup group = used("7");
    fs::create_directories(scopes_ / "job_7" / "step_1");
    become_empty(group);
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(group.path));
    EXPECT_TRUE(fs::exists(scopes_ / "job_7" / "step_1"));
}

// Breaks when nobody comes back for a job's group because Slurm was just working on such groups.
TEST_F(LeftGroups, StayNotedWhileSlurmHasTheLock) {
    const JobGroup group = used("7");
    become_empty(group);
    const int scope = open(scopes_.c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(flock(scope, LOCK_EX), 0);
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(scopes_ / "job_7"));
    EXPECT_TRUE(fs::exists(group.note));
    close(scope);
    remove_left_groups(notes_);
    EXPECT_FALSE(fs::exists(scopes_ / "job_7"));
    EXPECT_TRUE(fs::is_empty(notes_));
}

// Breaks when a running upload, or a job that runs, loses its helpers.
TEST_F(LeftGroups, AreKilledADayAfterTheEndOfTheJob) {
    const auto told_to_die = [](const JobGroup& group) {
        std::string text;
        std::ifstream(group.path + "/cgroup.kill") >> text;
        return text == "1";
    };
    const timespec then{.tv_sec = time(nullptr) - 100000, .tv_nsec = 0};
    const std::array<timespec, 2> times{then, then};
    const auto begun_long_ago = [&](const char* number) {
        JobGroup group = used(number);
        std::ofstream(group.path + "/cgroup.kill") << "";
        EXPECT_EQ(utimensat(AT_FDCWD, group.note.c_str(), times.data(), 0), 0);
        return group;
    };
    const JobGroup left = begun_long_ago("7");
    const JobGroup has_just_ended = begun_long_ago("8");
    note_end_of_groups(notes_, 8);
    const JobGroup runs = begun_long_ago("9");
    ASSERT_TRUE(note_job(notes_, 9));
    const JobGroup has_steps = begun_long_ago("10");
    fs::create_directories(scopes_ / "job_10" / "step_0");
    remove_left_groups(notes_);
    EXPECT_TRUE(told_to_die(left));
    for (const JobGroup& group : {has_just_ended, runs, has_steps})
        EXPECT_FALSE(told_to_die(group)) << group.path;
}

TEST_F(LeftGroups, OfOtherFilesAreNotLookedFor) {
    fs::create_directories(scopes_ / "batchai");
    for (const char* name : {"x.group", ".group", "7x.group", "7.group.new"})
        std::ofstream(notes_ / name) << (scopes_ / "batchai").string();
    std::ofstream(notes_ / "7.b.group") << scopes_.string();
    std::ofstream(notes_ / "8.b.group") << "";
    remove_left_groups(notes_);
    EXPECT_TRUE(fs::exists(scopes_ / "batchai"));
    EXPECT_TRUE(fs::exists(notes_ / "8.b.group")) << "it is just being written";
    remove_left_groups(notes_ / "missing");
}

}  // namespace
}  // namespace batchai::spank
