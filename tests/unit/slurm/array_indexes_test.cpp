// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/array_indexes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slurm/parse.hpp"

namespace batchai::slurm {
namespace {

using ::testing::ElementsAre;

TEST(ArrayIndexes, AreExpanded) {
    EXPECT_THAT(expand_array_indexes("3").value(), ElementsAre(3));
    EXPECT_THAT(expand_array_indexes("1,3,5-7%2").value(), ElementsAre(1, 3, 5, 6, 7));
    EXPECT_THAT(expand_array_indexes("[0-8:4,2]").value(), ElementsAre(0, 2, 4, 8));
    EXPECT_THAT(expand_array_indexes("2-4,3").value(), ElementsAre(2, 3, 4));
}

TEST(ArrayIndexes, OfAnotherFormAreNone) {
    for (const char* text : {"", "N/A", "1-", "-1", "3-1", "1,,2", "a", "1:2:3", "0-4000001",
                             "1-2:0", "1-2:2147483647", "99999999999", "0x3"})
        EXPECT_FALSE(expand_array_indexes(text)) << text;
}

TEST(ArrayIndexes, CannotFillTheMemory) {
    std::string many = "0-4000000";
    for (int i = 0; i < 100; ++i)
        many += ",0-4000000";
    EXPECT_FALSE(expand_array_indexes(many));
}

TEST(ArrayIndexes, MayHaveALimitOfTasksAtOnce) {
    EXPECT_EQ(tasks_at_once("0-99:2%4"), 4);
    for (const char* text : {"0-99", "", "1-2%", "1-2%x", "1-2%0", "1-2%99999999999"})
        EXPECT_EQ(tasks_at_once(text), std::nullopt) << text;
}

TEST(CombinedState, FollowsFromThoseOfTheTasks) {
    using enum ExecutionState;
    EXPECT_EQ(combined_state({.queued = 3}), queued);
    EXPECT_EQ(combined_state({.queued = 3, .running = 1}), running);
    EXPECT_EQ(combined_state({.queued = 1, .succeeded = 2}), running);
    EXPECT_EQ(combined_state({.queued = 1, .failed = 2}), running);
    EXPECT_EQ(combined_state({.running = 1, .failed = 2}), running);
    EXPECT_EQ(combined_state({.queued = 1, .running = 1, .terminating = 1}), terminating);
    EXPECT_EQ(combined_state({.succeeded = 2, .failed = 1}), failed);
    EXPECT_EQ(combined_state({.succeeded = 2}), succeeded);
    EXPECT_EQ(combined_state({}), failed);
}

TEST(ParseQueue, TheTasksOfAnArrayHaveItsId) {
    const auto jobs = parse_queue(
        "12|PENDING|JobArrayTaskLimit|main|alice|0|N/A|N/A|N/A|N/A|0||12|4-6,9%2|\n"
        "14|RUNNING|None|main|alice|0|N/A|N/A|N/A|N/A|1|h1|12|3|\n");
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_EQ(jobs->at("12").array_id, "12");
    EXPECT_THAT(jobs->at("12").array_tasks, ElementsAre(4, 5, 6, 9));
    EXPECT_EQ(jobs->at("14").array_id, "12");
    EXPECT_THAT(jobs->at("14").array_tasks, ElementsAre(3));
}

TEST(ParseAccounting, TheTasksOfAnArrayHaveItsId) {
    const auto jobs = parse_accounting(
        "14|COMPLETED|None|main|alice|0:0|Unknown|Unknown|Unknown|Unknown|h1|12_3\n"
        "12|CANCELLED by 1|None|main|alice|0:0|Unknown|Unknown|Unknown|Unknown||12_[4-6%2]\n"
        "15|COMPLETED|None|main|alice|0:0|Unknown|Unknown|Unknown|Unknown|h1|15\n");
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_THAT(jobs->at("12").array_tasks, ElementsAre(4, 5, 6));
    EXPECT_EQ(jobs->at("14").array_id, "12");
    EXPECT_EQ(jobs->at("15").array_id, "");
    EXPECT_TRUE(jobs->at("15").array_tasks.empty());
}

}  // namespace
}  // namespace batchai::slurm
