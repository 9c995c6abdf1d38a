// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/retry.hpp"

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "scratch.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using record::RetryCount;
using testing::HasSubstr;

const plan::Retry retry{.on = {"nodeFailure", "timeout", "75", "130-140"}, .max = 2};

std::optional<std::string> why_not(EndedBy by, int exit_code = 1, const RetryCount& count = {}) {
    return why_not_again(retry, {.by = by, .exit_code = exit_code}, count);
}

}  // namespace

TEST(Retry, FollowsTheCausesThatAreNamed) {
    EXPECT_EQ(why_not(EndedBy::node), std::nullopt);
    EXPECT_EQ(why_not(EndedBy::time_limit), std::nullopt);
    EXPECT_EQ(why_not(EndedBy::preemption), "");
}

TEST(Retry, FollowsAHangOnlyIfItIsNamed) {
    EXPECT_EQ(why_not(EndedBy::hang, 137), "");
    plan::Retry of_hangs = retry;
    of_hangs.on = {"hang"};
    EXPECT_EQ(why_not_again(of_hangs, {.by = EndedBy::hang}, {}), std::nullopt);
}

TEST(Retry, FollowsTheExitCodesThatAreNamed) {
    for (const int code : {75, 130, 137, 140})
        EXPECT_EQ(why_not(EndedBy::program, code), std::nullopt) << code;
    for (const int code : {1, 74, 76, 129, 141, -1})
        EXPECT_EQ(why_not(EndedBy::program, code), "") << code;
    EXPECT_EQ(why_not(EndedBy::memory, 137), std::nullopt);
}

// Breaks when an exit code counts although it is not the program's own.
TEST(Retry, NeverFollowsAnEndThatSomebodyWants) {
    for (const EndedBy by :
         {EndedBy::user, EndedBy::administrator, EndedBy::requeue, EndedBy::preparation,
          EndedBy::storage, EndedBy::start, EndedBy::unknown})
        EXPECT_EQ(why_not(by, 75), "") << static_cast<int>(by);
}

TEST(Retry, EndsAtItsLimit) {
    EXPECT_EQ(why_not(EndedBy::node, 1, {.retries = 1}), std::nullopt);
    EXPECT_THAT(why_not(EndedBy::node, 1, {.retries = 2}).value_or(""), HasSubstr("2 times"));
    EXPECT_THAT(why_not(EndedBy::node, 1, {.retries = 9}).value_or(""), HasSubstr("9 times"));
}

TEST(Retry, EndsWithoutProgress) {
    plan::Retry careful = retry;
    careful.progress_directory = "/models";
    careful.attempts_without_progress = 2;
    const AttemptEnd end{.by = EndedBy::node};
    EXPECT_EQ(why_not_again(careful, end, {.without_progress = 1}), std::nullopt);
    EXPECT_THAT(why_not_again(careful, end, {.without_progress = 2}).value_or(""),
                HasSubstr("/models"));
    EXPECT_EQ(why_not_again(retry, end, {.without_progress = 2}), std::nullopt);
}

TEST(Retry, CountsOneMoreAndKeepsWhatIsKnownOfProgress) {
    const RetryCount before{.attempt = 1, .retries = 1, .without_progress = 1, .progress = "old"};
    EXPECT_EQ(counted(before, 3, "new"),
              (RetryCount{.attempt = 3, .retries = 2, .without_progress = 1, .progress = "new"}));
    EXPECT_EQ(counted(before, 3, "").progress, "old");
}

class ProgressIn : public ScratchTest {};

TEST_F(ProgressIn, ChangesWithEachFileAtAnyDepth) {
    const std::string none = progress_in(path("models"));
    EXPECT_FALSE(none.empty());
    append("models/a/b/c/d/e/f/1.pt", "x");
    const std::string one = progress_in(path("models"));
    EXPECT_NE(one, none);
    EXPECT_EQ(progress_in(path("models")), one);
    append("models/a/b/c/d/e/f/1.pt", "x");
    const std::string longer = progress_in(path("models"));
    EXPECT_NE(longer, one);
    std::filesystem::remove(path("models/a/b/c/d/e/f/1.pt"));
    EXPECT_NE(progress_in(path("models")), longer);
}

TEST_F(ProgressIn, IsUnknownWhereThereIsTooMuchToLookAt) {
    for (const char* name : {"m/1", "m/2", "m/3"})
        append(name, "x");
    EXPECT_FALSE(progress_in(path("m"), 3).empty());
    EXPECT_TRUE(progress_in(path("m"), 2).empty());
    EXPECT_TRUE(progress_in(path("m/1")).empty());
}

TEST_F(ProgressIn, DoesNotFollowLinks) {
    append("elsewhere/big", "xxx");
    append("m/1", "x");
    std::filesystem::create_symlink(path("elsewhere"), path("m/link"));
    const std::string before = progress_in(path("m"));
    append("elsewhere/more", "x");
    EXPECT_EQ(progress_in(path("m")), before);
}

// Breaks when a file server that does not answer stops the job's end.
TEST(LookedAt, EndsAtItsDeadline) {
    const auto for_ever = []() -> std::string {
        while (true)
            pause();
    };
    EXPECT_EQ(looked_at(for_ever, std::chrono::milliseconds(100)), "");
}

TEST(LookedAt, GivesWhatIsSeen) {
    EXPECT_EQ(looked_at([] { return std::string("12 3 4"); }, std::chrono::seconds(60)), "12 3 4");
    EXPECT_EQ(looked_at([]() -> std::string { abort(); }, std::chrono::seconds(60)), "");
}

}  // namespace batchai::run
