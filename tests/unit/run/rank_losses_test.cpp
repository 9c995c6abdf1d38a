// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/rank_losses.hpp"

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* end_of_2_and_3 = "srun: error: n2.invalid: tasks 2-3: Killed\n";

}  // namespace

// Six ranks on three nodes, of which the job needs two.
class RankLossesTest : public ElasticJobTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        plan_.directories.job_directory = path("job");
        plan_.mpi = "pmix";
        plan_.steps = {step_of(plan::StepKind::ranks, 6, true)};
        plan_.steps.front().processes_per_node = 2;
        std::filesystem::create_directories(path("job/elastic"));
        std::filesystem::permissions(path("job/elastic"), std::filesystem::perms::owner_all);
        make_context({.least_nodes = 2, .keeps_processes = true}, granted_.nodes);
        context_->lost = [this](record::Loss loss) { noted_.push_back(std::move(loss)); };
        begin();
    }
    void begin() {
        losses_.emplace(*context_, context_->rank_places(), TaskWords{.job_id = "7"},
                        [this](const std::vector<std::string>&) { return silent_; });
    }
    void say_that_ranks_stay() {
        append("job/elastic/stay.json", R"({"schema": "batchai-ranks-stay/v1", "start": "1"})");
    }
    void ask(const std::string& number, const std::string& lost, const std::string& here,
             const std::string& start = "1") {
        std::filesystem::remove(path("job/elastic/loss.json"));
        append("job/elastic/loss.json",
               fmt::format(R"({{"schema": "batchai-ranks-lost/v1", "start": "{}", "number": "{}",
                               "lost": [{}], "here": [{}]}})",
                           start, number, lost, here));
    }
    void poll(const std::string& said, seconds later = seconds(0),
              const std::vector<std::string>& dead = {}) {
        now_ += later;
        losses_->poll(said, dead, now_);
    }
    // Has the others go on without the ranks 2 and 3, which were killed.
    void lose_2_and_3() {
        say_that_ranks_stay();
        ask("a", "2, 3", "0, 1, 4, 5");
        poll(end_of_2_and_3);
        ASSERT_EQ(noted_.size(), 1U);
    }
    // Returns the exit code of a step with that loss that has ended so.
    [[nodiscard]] int exit_code_after(StepResult result) const {
        losses_->leave_out_lost(result);
        return result.exit_code;
    }
    [[nodiscard]] std::string answer() const {
        return text_if_there("job/elastic/loss-answer.json");
    }

    std::vector<record::Loss> noted_;
    std::vector<std::string> silent_;
    std::optional<RankLosses> losses_;
    RankLosses::Clock::time_point now_{seconds(1000)};
};

// Breaks when ranks that do not know how to go on hang after the death of one.
TEST_F(RankLossesTest, AStepEndsAtOnceIfItsRanksHaveNotSaidThatTheyStay) {
    poll("");
    EXPECT_FALSE(losses_->must_end());
    poll(end_of_2_and_3);
    EXPECT_TRUE(losses_->must_end());
}

TEST_F(RankLossesTest, TheOthersGoOnOnceSlurmSaysTheSame) {
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    poll("srun: error: n2.invalid: task 2: Killed\n");
    EXPECT_EQ(answer(), "") << "rank 3 may live";
    const std::string said = std::string("srun: error: n2.invalid: task 2: Killed\n") +
                             "srun: error: n2.invalid: task 3: Killed\n";
    poll(said);
    EXPECT_THAT(answer(), HasSubstr(R"("refusal": "")"));
    EXPECT_THAT(answer(), HasSubstr(R"("number": "a")"));
    EXPECT_FALSE(losses_->must_end());
    ASSERT_EQ(noted_.size(), 1U);
    EXPECT_THAT(noted_[0].ranks, ElementsAre(2, 3));
    EXPECT_EQ(noted_[0].ranks_left, 4);
    EXPECT_EQ(noted_[0].failure.rank, 2);
    EXPECT_EQ(losses_->without_lost(said), "");
    // The next loss.
    poll(said, RankLosses::longest_silence * 2);
    EXPECT_FALSE(losses_->must_end());
    ask("b", "5", "0, 1, 4");
    poll(said + "srun: error: n3.invalid: task 5: Exited with exit code 1\n");
    EXPECT_FALSE(losses_->must_end());
    ASSERT_EQ(noted_.size(), 2U);
    EXPECT_EQ(noted_[1].failure.rank, 5);
}

// Breaks when a loss is recorded twice because a rank has died before the others went on.
TEST_F(RankLossesTest, ALossIsRecordedOnceThoughItIsAskedAboutAgain) {
    lose_2_and_3();
    const std::string said =
        std::string(end_of_2_and_3) + "srun: error: n3.invalid: task 5: Killed\n";
    ask("b", "2, 3, 5", "0, 1, 4");
    poll(said);
    ASSERT_EQ(noted_.size(), 2U);
    EXPECT_THAT(noted_[1].ranks, ElementsAre(5));
    EXPECT_EQ(noted_[1].ranks_left, 3);
    EXPECT_EQ(noted_[1].failure.rank, 5);
    ask("c", "2, 3, 5", "0, 1, 4");
    poll(said);
    EXPECT_THAT(answer(), HasSubstr(R"("number": "c")"));
    EXPECT_THAT(answer(), HasSubstr(R"("refusal": "")"));
    EXPECT_EQ(noted_.size(), 2U);
}

TEST_F(RankLossesTest, AQuestionOfAnotherStartCountsForNothing) {
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5", "1-1");
    poll(end_of_2_and_3);
    poll(end_of_2_and_3, RankLosses::longest_silence);
    EXPECT_FALSE(losses_->must_end());
    poll(end_of_2_and_3, seconds(1));
    EXPECT_TRUE(losses_->must_end());
    EXPECT_EQ(answer(), "");
}

// Breaks when a part of a torn network goes on without the other.
TEST_F(RankLossesTest, RanksThatLiveAreNotLost) {
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    poll("");
    poll("", RankLosses::longest_doubt - seconds(1));
    EXPECT_EQ(answer(), "");
    poll("", seconds(1));
    EXPECT_THAT(answer(), HasSubstr("rank 2 is said to be lost, but has not ended"));
    EXPECT_TRUE(losses_->must_end());
    EXPECT_THAT(noted_, IsEmpty());
}

// Breaks when a question is refused at once because another one has waited for long.
TEST_F(RankLossesTest, EachQuestionWaitsForItself) {
    say_that_ranks_stay();
    ask("a", "2", "0, 1, 3, 4, 5");
    poll("");
    poll("", RankLosses::longest_doubt - seconds(1));
    ask("b", "2, 3", "0, 1, 4, 5");
    poll("", seconds(1));
    EXPECT_EQ(answer(), "");
    poll("", RankLosses::longest_doubt);
    EXPECT_THAT(answer(), HasSubstr(R"("number": "b")"));
}

TEST_F(RankLossesTest, ANodeThatIsSilentForItsPeersAndForUsIsDead) {
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    silent_ = {"n2.invalid"};
    poll("");
    EXPECT_TRUE(losses_->are_doubtful());
    EXPECT_EQ(answer(), "");
    poll("", seconds(1));
    EXPECT_THAT(answer(), HasSubstr(R"("refusal": "")"));
    EXPECT_THAT(losses_->dead_nodes(), ElementsAre("n2.invalid"));
    ASSERT_EQ(noted_.size(), 1U);
    EXPECT_EQ(noted_[0].failure.code, "NodeFailed");
    EXPECT_EQ(noted_[0].failure.node, "n2.invalid");
    // Slurm says so much later.
    const std::string later = "srun: error: Node failure on n2.invalid\n";
    EXPECT_EQ(losses_->without_lost(later), "");
    poll(later, seconds(1), {"n2.invalid"});
    EXPECT_FALSE(losses_->must_end());
    // srun waits for the tasks on it.
    for (const char* rank : {"0", "1", "4"})
        append(fmt::format("job/elastic/ended.1.{}", rank), "{}");
    poll(later, seconds(10));
    append("job/elastic/ended.1-1.5", "{}");
    poll(later, seconds(10));
    EXPECT_FALSE(losses_->others_have_ended());
    append("job/elastic/ended.1.5", "{}");
    poll(later, seconds(10));
    EXPECT_FALSE(losses_->others_have_ended());
    poll(later, RankLosses::end_of_ranks);
    EXPECT_TRUE(losses_->others_have_ended());
}

// Breaks when a node is taken for dead that has not answered two questions far apart.
TEST_F(RankLossesTest, NobodyIsDoubtfulWithoutAQuestion) {
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    silent_ = {"n2.invalid"};
    poll("");
    EXPECT_TRUE(losses_->are_doubtful());
    std::filesystem::remove(path("job/elastic/loss.json"));
    poll("", seconds(1));
    EXPECT_FALSE(losses_->are_doubtful());
    ask("b", "2, 3", "0, 1, 4, 5");
    poll("", seconds(1));
    EXPECT_TRUE(losses_->are_doubtful());
    EXPECT_EQ(answer(), "");
}

// Breaks when the other part of a torn network ends the one that has gone on.
TEST_F(RankLossesTest, RanksWithoutWhichOthersHaveGoneOnAreRefusedAlone) {
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    silent_ = {"n2.invalid"};
    poll("");
    poll("", seconds(1));
    ASSERT_EQ(noted_.size(), 1U);
    silent_.clear();
    ask("b", "0, 1, 4, 5", "2, 3");
    poll("", seconds(1));
    EXPECT_THAT(answer(), HasSubstr("gone on without these ranks"));
    EXPECT_THAT(answer(), HasSubstr(R"("number": "b")"));
    poll("srun: error: n2.invalid: tasks 2-3: Exited with exit code 1\n", seconds(1));
    EXPECT_FALSE(losses_->must_end());
}

// Breaks when the job counts as succeeded although srun was killed or has failed by itself.
TEST_F(RankLossesTest, OnlyALossExplainsThatSrunDoesNotEndWithZero) {
    lose_2_and_3();
    const std::string said = end_of_2_and_3;
    EXPECT_EQ(exit_code_after({.exit_code = 0, .messages = said}), 0);
    EXPECT_EQ(exit_code_after({.exit_code = 137, .messages = said}), 0);
    EXPECT_EQ(exit_code_after({.exit_code = 137, .messages = said, .srun_killed_by = SIGKILL}),
              137);
    EXPECT_EQ(exit_code_after({.exit_code = 139, .messages = said, .srun_killed_by = SIGSEGV}),
              139);
    EXPECT_EQ(exit_code_after({.exit_code = 1, .messages = said + "srun: error: Oh!\n"}), 1);
    EXPECT_EQ(exit_code_after({.exit_code = 137,
                               .messages = said + "srun: error: n3.invalid: task 5: Killed\n"}),
              137);
    EXPECT_EQ(exit_code_after({.exit_code = 137, .messages = said, .stopped_by = SIGTERM}), 137);
}

TEST_F(RankLossesTest, AStepIsWellOnceAllWhoWereLeftHaveSaidThatTheyEnd) {
    lose_2_and_3();
    for (const char* rank : {"0", "1", "4", "5"})
        append(fmt::format("job/elastic/ended.1.{}", rank), "{}");
    const std::string said = end_of_2_and_3;
    EXPECT_EQ(exit_code_after({.exit_code = 1, .messages = said + "srun: error: Oh!\n"}), 0);
    EXPECT_EQ(exit_code_after({.exit_code = 137, .messages = said, .srun_killed_by = SIGKILL}),
              137);
}

TEST_F(RankLossesTest, TheMemoryOfALostRankIsNotBlamedForTheNextLoss) {
    const std::string said =
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have "
        "been OOM Killed.\nsrun: error: n2.invalid: tasks 2-3: Out Of Memory\n";
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    poll(said);
    ASSERT_EQ(noted_.size(), 1U);
    EXPECT_EQ(noted_[0].failure.code, record::words_of(record::EndedBy::memory).code);
    EXPECT_EQ(exit_code_after({.exit_code = 137, .messages = said}), 0);
    ask("b", "5", "0, 1, 4");
    poll(said + "srun: error: n3.invalid: task 5: Killed\n");
    ASSERT_EQ(noted_.size(), 2U);
    EXPECT_EQ(noted_[1].failure.code, record::words_of(record::EndedBy::program).code);
}

TEST_F(RankLossesTest, TooFewNodesAreRefused) {
    say_that_ranks_stay();
    ask("a", "0, 1, 2, 3", "4, 5");
    poll(
        "srun: error: n2.invalid: tasks 2-3: Killed\nsrun: error: n1.invalid: tasks 0-1: Killed\n");
    EXPECT_THAT(answer(), HasSubstr("only 1 nodes are left, but 2 are needed"));
    EXPECT_TRUE(losses_->must_end());
}

TEST_F(RankLossesTest, ASpareNodeComesFirst) {
    context_->place.spares = {"n4.invalid"};
    say_that_ranks_stay();
    begin();
    say_that_ranks_stay();
    ask("a", "2, 3", "0, 1, 4, 5");
    poll(end_of_2_and_3);
    EXPECT_THAT(answer(), HasSubstr("a spare node takes the place"));
    EXPECT_TRUE(losses_->must_end());
}

// Breaks when the links are looked at through another plugin of Slurm than the ranks use.
TEST_F(RankLossesTest, TheLinkCheckStartsAsTheRanksDo) {
    static_cast<void>(LinkCheck::run(*context_));
    ASSERT_EQ(steps_.requests.size(), 1U);
    EXPECT_THAT(steps_.requests.front().arguments, Contains("--mpi=pmi2"));
}

TEST_F(RankLossesTest, FilesOfAnEarlierRunAreRemoved) {
    say_that_ranks_stay();
    append("job/elastic/ended.1.0", "{}");
    append("job/elastic/committed.pickle", "");
    begin();
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(path("job/elastic")))
        left.push_back(entry.path().filename().string());
    EXPECT_THAT(left, ElementsAre("committed.pickle"));
}

// Breaks when the ranks are told to go on without each other, and nobody can let them.
TEST_F(RankLossesTest, AJobOfWhichTheNodesAreUnknownIsAsBefore) {
    const auto variables = [&] { return step_environment(*context_, plan::StepKind::ranks); };
    constexpr const char* short_wait = "MPI_BRIDGE_HOST_TIMEOUT_SECONDS=4";
    EXPECT_EQ(context_->mpi(), "pmi2");
    EXPECT_THAT(variables(), Contains(short_wait));
    plan_.allocation.options.push_back({"distribution", "arbitrary"});
    begin();
    EXPECT_FALSE(losses_->are_outlived());
    EXPECT_EQ(context_->mpi(), "pmix");
    EXPECT_THAT(variables(), testing::Not(Contains(short_wait)));
}

TEST_F(RankLossesTest, AJobThatDoesNotWantItIsAsBefore) {
    context_->elastic->keeps_processes = false;
    begin();
    EXPECT_FALSE(losses_->are_outlived());
    poll(end_of_2_and_3);
    EXPECT_FALSE(losses_->must_end()) << "srun ends the step itself";
}

}  // namespace batchai::run
