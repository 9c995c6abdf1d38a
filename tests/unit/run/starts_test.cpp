// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/starts.hpp"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "record/start_notes.hpp"
#include "scratch.hpp"

namespace batchai::run {

using testing::HasSubstr;

constexpr const char* no_output =
    "srun: error: task 1 launch failed: Slurmd could not connect IO\n";

// A step of three tasks, two of them on h2.
class StartsTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        std::filesystem::create_directories(path("attempts"));
    }
    [[nodiscard]] ExpectedStarts expected() const {
        return {.files = record::JobFiles(directory_),
                .step = "1",
                .nodes = 2,
                .node_of_task = {"h1", "h2", "h2"},
                .error_files = {path("e0"), path("e1"), path("e2")}};
    }
    void note(int node, std::initializer_list<std::uint32_t> tasks) const {
        auto note =
            record::StartNote::open(record::JobFiles(directory_), "1", node, tasks.size()).value();
        for (const std::uint32_t task : tasks)
            note.started(task);
    }
    [[nodiscard]] Starts of(const std::string& messages, int exit_code = 0) const {
        const ExpectedStarts all = expected();
        return starts_of(&all, messages, exit_code);
    }
};

TEST_F(StartsTest, AreAllThereIfThePluginSaysSo) {
    note(0, {0});
    note(1, {2, 1});
    EXPECT_TRUE(of("").missing.empty());
    EXPECT_TRUE(of("").unconfirmed.empty());
    forget_starts(expected());
    EXPECT_EQ(of("").missing.size(), 3U);
}

// Breaks when srun's 0 is believed although Slurm has started no task, or a disk is not named.
TEST_F(StartsTest, FailWhereAFileOfTheOutputCannotBeMade) {
    note(0, {0});
    ExpectedStarts all = expected();
    all.error_files[1] = path("none/e1");
    const auto missing = starts_of(&all, no_output, 143).missing;
    ASSERT_EQ(missing.size(), 1U);
    EXPECT_EQ(missing[0].task, 1);
    EXPECT_EQ(missing[0].node, "h2");
    EXPECT_EQ(missing[0].reason,
              "its output file cannot be made: " + path("none/e1") + ": No such file or directory");
    EXPECT_THAT(of(no_output, 143).missing.at(0).reason, HasSubstr("its node could not"));
}

TEST_F(StartsTest, FailForTheFileOfANeighbourOrForTheNetwork) {
    append("e1", "");
    ExpectedStarts all = expected();
    all.error_files[2] = path("none/e2");
    EXPECT_THAT(starts_of(&all, no_output, 1).missing.at(0).reason,
                HasSubstr("an output file of its node cannot be made: " + path("none/e2")));
    append("e2", "");
    EXPECT_THAT(of(no_output, 1).missing.at(0).reason, HasSubstr("connect to srun"));
}

TEST_F(StartsTest, FailForAllTasksOfANode) {
    const auto missing =
        of("srun: error: Task launch for StepId=5.0 failed on node h2: Invalid credential\n", 1)
            .missing;
    ASSERT_EQ(missing.size(), 2U);
    EXPECT_EQ(missing[1], (NotStarted{2, "h2", "Invalid credential"}));
}

// Breaks when a full disk makes a job that has run well a failed one, or a rank of which nothing is
// to be seen a good one.
TEST_F(StartsTest, NeedASecondWitnessWithoutThePluginsWord) {
    note(0, {0});
    append("e1", "");
    const Starts starts = of("");
    EXPECT_EQ(starts.unconfirmed, std::vector<int>{1});
    ASSERT_EQ(starts.missing.size(), 1U);
    EXPECT_EQ(starts.missing[0].task, 2);
    EXPECT_TRUE(of("", 143).missing.empty()) << "a step that was ended says nothing of starts";
}

TEST_F(StartsTest, LookWhetherThereIsRoom) {
    EXPECT_EQ(why_no_room(expected()), "");
    forget_starts(expected());
    EXPECT_TRUE(std::filesystem::is_empty(path("attempts")));
    std::filesystem::remove(path("attempts"));
    EXPECT_EQ(why_no_room(expected()), path("attempts") + ": No such file or directory");
}

TEST_F(StartsTest, AreNotToldByHalfANote) {
    append("attempts/1.started-0.txt", "0");
    EXPECT_TRUE(record::started_tasks(record::JobFiles(directory_), "1", 0).empty());
    append("attempts/1.started-0.txt", "\n");
    EXPECT_EQ(record::started_tasks(record::JobFiles(directory_), "1", 0), std::set<int>{0});
}

}  // namespace batchai::run
