// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/host_updates.hpp"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "record/elastic_files.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;
using testing::ContainsRegex;
using testing::HasSubstr;

}  // namespace

// An elastic job on n1, n2 and n3, whose ranks run on the first two.
class HostUpdatesTest : public ElasticJobTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        plan_.directories.job_directory = path("job");
        std::filesystem::create_directories(path("job"));
        for (const std::string& name : granted_.nodes) {
            view_.job.nodes.push_back(name);
            slurm::NodeStatus status;
            status.name = name;
            status.state = slurm::NodeBaseState::allocated;
            view_.nodes.push_back(status);
        }
        make_context({.least_nodes = 1}, {"n1.invalid", "n2.invalid"});
        hosts_.granted = granted_.nodes;
        hosts_.place = context_->place.nodes;
        updates_.emplace(*context_, hosts_, [this]() -> base::Result<SlurmsView> {
            ++questions_;
            if (!answers_) return base::fail("no answer");
            return view_;
        });
    }
    void wait(seconds time) {
        now_ += time;
        updates_->poll(now_);
    }
    [[nodiscard]] std::string announced() const { return text_if_there("job/elastic/hosts.json"); }

    SlurmsView view_;
    bool answers_ = true;
    int questions_ = 0;
    Hosts hosts_;
    std::optional<HostUpdates> updates_;
    HostUpdates::Clock::time_point now_{};
};

// Breaks when a node that comes and goes ends the ranks each time.
TEST_F(HostUpdatesTest, ANodeThatIsBackForTwoQuestionsIsAnnounced) {
    updates_->begin(now_);
    wait(seconds(19));
    EXPECT_EQ(questions_, 0);
    wait(seconds(1));
    EXPECT_EQ(announced(), "");
    view_.nodes[2].flags = {slurm::NodeFlag::not_responding};
    wait(seconds(20));
    view_.nodes[2].flags = {};
    wait(seconds(20));
    EXPECT_EQ(announced(), "");
    wait(seconds(20));
    EXPECT_THAT(announced(), HasSubstr(R"("added")"));
    EXPECT_EQ(updates_->told(), "n3.invalid is back");
    EXPECT_EQ(questions_, 4);
    wait(seconds(60));
    EXPECT_EQ(questions_, 4) << "the ranks have been told";
}

TEST_F(HostUpdatesTest, ANodeThatIsLostEachTimeIsLeftOutInTheEnd) {
    for (int start = 0; start < HostUpdates::most_returns + 2; ++start) {
        context_->place.restarts = start;
        updates_->begin(now_);
        wait(seconds(20));
        wait(seconds(20));
        EXPECT_EQ(updates_->told().empty(), start >= HostUpdates::most_returns) << start;
    }
}

TEST_F(HostUpdatesTest, OnlyTheConfirmationOfThisStartCounts) {
    updates_->begin(now_);
    view_.nodes[1].flags = {slurm::NodeFlag::fail};
    view_.job.nodes.pop_back();
    append("job/elastic/left.json", R"({"schema": "batchai-ranks-left/v1", "start": "1"})");
    EXPECT_FALSE(updates_->ranks_have_left()) << "nothing was announced";
    wait(seconds(20));
    EXPECT_THAT(announced(), ContainsRegex(R"("start": ?"1")"));
    EXPECT_THAT(announced(), ContainsRegex(R"("change": ?"removed")"));
    EXPECT_TRUE(updates_->ranks_have_left());
    context_->place.restarts = 1;
    EXPECT_FALSE(updates_->ranks_have_left()) << "that was the start before";
    updates_->begin(now_);
    EXPECT_EQ(announced(), "");
}

TEST_F(HostUpdatesTest, ASilentControllerIsAskedAgain) {
    view_.nodes[1].flags = {slurm::NodeFlag::fail};
    answers_ = false;
    updates_->begin(now_);
    wait(seconds(20));
    EXPECT_EQ(announced(), "");
    answers_ = true;
    wait(seconds(40));
    EXPECT_THAT(announced(), HasSubstr("removed"));
}

TEST_F(HostUpdatesTest, ARequestOfTheUserIsTakenOnce) {
    ASSERT_TRUE(record::write_resize_request(context_->files(), {.attempt = 1, .nodes = 1}));
    updates_->begin(now_);
    wait(seconds(1));
    EXPECT_THAT(announced(), HasSubstr("removed"));
    EXPECT_EQ(hosts_.wanted, 1);
    EXPECT_EQ(updates_->told(), "n2.invalid, n3.invalid leave");
    EXPECT_FALSE(std::filesystem::exists(path("job/resize.json")));
    EXPECT_FALSE(std::filesystem::exists(path("job/resize.json.taken")));
}

// Breaks when a node on which no rank runs cannot be given back.
TEST_F(HostUpdatesTest, ANodeThatIsLeftOutIsGivenBackAtTheUsersWish) {
    view_.nodes[2].flags = {slurm::NodeFlag::fail};
    updates_->begin(now_);
    ASSERT_TRUE(record::write_resize_request(context_->files(), {.attempt = 1, .nodes = 2}));
    wait(seconds(1));
    EXPECT_EQ(updates_->told(), "n3.invalid leaves");
}

TEST_F(HostUpdatesTest, TheRanksStayUntilEnoughNodesAreThere) {
    hosts_.least = 2;
    view_.nodes[1].flags = view_.nodes[2].flags = {slurm::NodeFlag::not_responding};
    updates_->begin(now_);
    ASSERT_TRUE(record::write_resize_request(context_->files(), {.attempt = 1, .nodes = 2}));
    wait(seconds(1));
    EXPECT_EQ(announced(), "");
    view_.nodes[1].flags = {};
    wait(seconds(20));
    EXPECT_EQ(updates_->told(), "n3.invalid leaves");
}

TEST_F(HostUpdatesTest, ARequestOfAnEarlierRunIsDropped) {
    ASSERT_TRUE(record::write_resize_request(context_->files(), {.attempt = 1, .nodes = 1}));
    Hosts hosts{.granted = granted_.nodes, .place = {}, .unfit = {}, .wanted = {}};
    HostUpdates(*context_, hosts, [] { return base::fail("no answer"); });
    EXPECT_FALSE(std::filesystem::exists(path("job/resize.json")));
}

TEST_F(HostUpdatesTest, ASilentControllerIsAskedLessOften) {
    answers_ = false;
    updates_->begin(now_);
    for (int i = 0; i < 140; ++i)
        wait(seconds(1));
    EXPECT_EQ(questions_, 3);
}

TEST_F(HostUpdatesTest, ARequestThatCannotBeMetChangesNothing) {
    hosts_.least = 2;
    updates_->begin(now_);
    // For another attempt, for too few nodes, and damaged.
    ASSERT_TRUE(record::write_resize_request(context_->files(), {.attempt = 2, .nodes = 2}));
    wait(seconds(1));
    ASSERT_TRUE(record::write_resize_request(context_->files(), {.attempt = 1, .nodes = 1}));
    wait(seconds(1));
    append("job/resize.json", "{");
    wait(seconds(1));
    EXPECT_EQ(hosts_.wanted, std::nullopt);
    EXPECT_EQ(announced(), "");
    EXPECT_FALSE(std::filesystem::exists(path("job/resize.json")));
}

// An elastic attempt in which Slurm answers while the ranks run.
class ElasticAttempt : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        elastic_ = plan::Elastic{.least_nodes = 1};
        path_ = std::getenv("PATH");
        setenv("PATH", path("no-programs").c_str(), 1);
    }
    void TearDown() override {
        setenv("PATH", path_.c_str(), 1);
        PhasesTest::TearDown();
    }
    // The user wants one node, and the ranks confirm if `confirmed` that they end because of it.
    void ranks_end_with(int exit_code, bool confirmed) {
        steps_.answer(0);  // the wire-up check
        steps_.answers.emplace_back([=, this](const StepRequest& request) {
            EXPECT_THAT(request.environment, testing::Contains("BATCHAI_ELASTIC_START=1"));
            const record::JobFiles files(path("job"));
            view_ = view_of_both();
            EXPECT_TRUE(record::write_resize_request(files, {.attempt = 1, .nodes = 1}));
            request.tick();
            EXPECT_THAT(text_of("job/elastic/hosts.json"), HasSubstr("removed"));
            if (confirmed)
                append("job/elastic/left.json",
                       R"({"schema": "batchai-ranks-left/v1", "start": "1"})");
            if (is_silent_) view_.reset();
            return StepResult{
                .exit_code = exit_code, .messages = "srun: noise\n", .stopped_by = {}};
        });
    }
    [[nodiscard]] SlurmsView view_of_both() const {
        SlurmsView view;
        for (const std::string& name : granted_.nodes) {
            view.job.nodes.push_back(name);
            slurm::NodeStatus& status = view.nodes.emplace_back();
            status.name = name;
            status.state = slurm::NodeBaseState::allocated;
        }
        return view;
    }
    bool is_silent_ = false;
    std::string path_;
};

// Breaks when ranks that have ended on purpose pass for ranks that are done, or for failed ones.
TEST_F(ElasticAttempt, RanksThatHaveLeftAreStartedAgainWhateverTheirExitCode) {
    for (const int exit_code : {0, 75}) {
        ranks_end_with(exit_code, true);
        EXPECT_EQ(attempt(), 0);
        ASSERT_EQ(record_.restarts.size(), 1U);
        EXPECT_EQ(record_.restarts[0].failure.code, "HostsUpdated");
        EXPECT_EQ(record_.restarts[0].failure.first_error_line, "n2.invalid leaves");
        EXPECT_THAT(record_.restarts[0].nodes, testing::ElementsAre("n1.invalid"));
        EXPECT_THAT(kept_, testing::ElementsAre("n1.invalid"));
        EXPECT_THAT(text_of("logs/stderr.txt"), testing::Not(HasSubstr("noise")));
        std::filesystem::remove_all(path("job"));
        std::filesystem::remove_all(path("logs"));
    }
}

// Breaks when a job ends because the controller restarts while its ranks change their nodes.
TEST_F(ElasticAttempt, ASilentControllerDoesNotEndTheJob) {
    is_silent_ = true;
    ranks_end_with(75, true);
    EXPECT_EQ(attempt(), 0);
    EXPECT_GT(looks_, 30);
    ASSERT_EQ(record_.restarts.size(), 1U);
    EXPECT_EQ(record_.restarts[0].nodes, granted_.nodes);
    EXPECT_THAT(kept_, testing::IsEmpty());
}

// Breaks when ranks start on a node that has been cleaned up.
TEST_F(ElasticAttempt, ANodeThatSlurmDoesNotTakeIsNotUsedAgain) {
    refuses_ = true;
    ranks_end_with(75, true);
    EXPECT_EQ(attempt(), 0);
    ASSERT_EQ(record_.restarts.size(), 1U);
    EXPECT_THAT(record_.restarts[0].nodes, testing::ElementsAre("n1.invalid"));
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("n2.invalid cannot be given back to Slurm: busy"));
}

// Breaks when a job that is cancelled between two starts still gives back nodes.
TEST_F(ElasticAttempt, AJobThatIsCancelledBetweenTwoStartsEnds) {
    ranks_end_with(75, true);
    slurm_.keep_nodes = [](const Nodes&) -> base::Result<void> {
        ADD_FAILURE() << "gives back nodes";
        return {};
    };
    slurm_.look = [this, looks = 0](std::chrono::seconds) mutable -> base::Result<SlurmsView> {
        if (++looks == 2) steps_.while_waiting = [] { return SIGTERM; };
        return view_of_both();
    };
    EXPECT_EQ(attempt(), 143);
    EXPECT_EQ(record_.ended_by, record::EndedBy::user);
}

TEST_F(ElasticAttempt, RanksThatEndOnTheirOwnHaveNotLeft) {
    is_silent_ = true;
    ranks_end_with(0, false);
    EXPECT_EQ(attempt(), 0);
    std::filesystem::remove_all(path("job"));
    ranks_end_with(75, false);
    EXPECT_EQ(attempt(), 75);
    EXPECT_EQ(record_.failure->code, "JobFailed");
}

// Breaks when the user's wish to end the job is taken for the wish to have fewer nodes.
TEST_F(ElasticAttempt, AJobThatIsCancelledWhileTheRanksLeaveEnds) {
    ranks_end_with(143, true);
    outside_.why = record::EndedBy::user;
    EXPECT_EQ(attempt(), 143);
    EXPECT_EQ(record_.ended_by, record::EndedBy::user);
}

// Breaks when the announcement is written to a place that somebody else has chosen.
TEST_F(HostUpdatesTest, ALinkInThePlaceOfTheDirectoryIsRefused) {
    std::filesystem::create_directories(path("elsewhere"));
    std::filesystem::create_directory_symlink(path("elsewhere"), path("job/elastic"));
    view_.nodes[1].flags = {slurm::NodeFlag::fail};
    updates_->begin(now_);
    wait(seconds(20));
    EXPECT_FALSE(std::filesystem::exists(path("elsewhere/hosts.json")));
    EXPECT_EQ(updates_->told(), "");
}

}  // namespace batchai::run
