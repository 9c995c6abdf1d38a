// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/dead_nodes.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/file.hpp"

namespace batchai::run {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* bad_end = "srun: error: n1: task 0: Exited with exit code 1\n";

}  // namespace

// Nodes n1, n2 and n3 whose slurmd listens on this host, unless it is dead.
class DeadNodesTest : public testing::Test {
  protected:
    void SetUp() override {
        for (const char* node : {"n1", "n2", "n3"})
            boot(node);
    }
    // `room` is for connections that nobody accepts.
    void boot(const std::string& node, int room = 256) {
        base::FileDescriptor& socket = slurmds_[node];
        socket =
            base::FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const int on = 1;
        setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        const std::string own = "127.0.0." + node.substr(1);
        inet_pton(AF_INET, own.c_str(), &address.sin_addr);
        address.sin_port = htons(static_cast<std::uint16_t>(daemons_[node].port));
        socklen_t length = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        ASSERT_EQ(bind(socket.get(), generic, length), 0);
        ASSERT_EQ(listen(socket.get(), room), 0);
        ASSERT_EQ(getsockname(socket.get(), generic, &length), 0);
        daemons_[node] = {.address = own, .port = ntohs(address.sin_port)};
    }
    // Nothing answers any more, as from a host without power.
    void fall_silent(const std::string& node) {
        boot(node, 0);
        constexpr std::chrono::milliseconds patience{100};
        while (base::knock({daemons_[node]}, patience).front() == base::Knock::open) {
            // The kernel drops what finds no room.
        }
    }
    void die(const std::string& node) { slurmds_[node].reset(-1); }
    // Those that were made to a slurmd since the last call.
    int connections(const std::string& node) {
        int count = 0;
        const int socket = slurmds_[node].get();
        while (base::FileDescriptor(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC)).get() >= 0)
            ++count;
        return count;
    }
    // The next `rounds` rounds after srun has said `messages`.
    std::vector<std::string> rounds(int count, const std::string& messages,
                                    bool stand_still = false) {
        std::vector<std::string> dead;
        for (; count > 0; --count) {
            dead = dead_.poll(messages, stand_still, now_);
            now_ += DeadNodes::patience;
        }
        return dead;
    }

    // A node that refuses has five seconds more.
    static constexpr int refusals = 4;
    std::map<std::string, base::FileDescriptor> slurmds_;
    NodeDaemons::Endpoints daemons_;
    bool answers_ = true;
    int asked_ = 0;
    NodeDaemons::Ask ask_ = [this](const std::vector<std::string>&) {
        ++asked_;
        return answers_ ? base::Result<NodeDaemons::Endpoints>(daemons_)
                        : tl::unexpected(base::Error{.what = "no answer"});
    };
    DeadNodes dead_{{"n1", "n2"}, {"n3"}, "n1", ask_};
    DeadNodes::Clock::time_point now_ = DeadNodes::Clock::now();
};

TEST_F(DeadNodesTest, NobodyLooksWhileAllTasksRun) {
    die("n2");
    EXPECT_THAT(rounds(9, ""), IsEmpty());
    EXPECT_THAT(rounds(9, "srun: job 7 queued\n"), IsEmpty());
    EXPECT_EQ(asked_, 0);
}

TEST_F(DeadNodesTest, OneLookTellsWhoIsSilentNow) {
    fall_silent("n2");
    EXPECT_THAT(dead_.silent_now({"n2"}, now_), ElementsAre("n2"));
    EXPECT_THAT(dead_.silent_now({"n3", "n2"}, now_), ElementsAre("n2"));
    die("n3");
    EXPECT_THAT(dead_.silent_now({"n3"}, now_), IsEmpty()) << "its slurmd may be starting again";
    die("n1");
    EXPECT_THAT(dead_.silent_now({"n2"}, now_), IsEmpty()) << "nobody answers";
}

// Breaks when a job whose ranks outlive others ends because of the node that it has lost before.
TEST_F(DeadNodesTest, AStepThatGoesOnWithoutANodeMayLoseTheNextOne) {
    die("n2");
    EXPECT_THAT(rounds(refusals + DeadNodes::least_rounds, bad_end), ElementsAre("n2"));
    dead_.go_on_without({"n2"});
    EXPECT_THAT(rounds(9, ""), IsEmpty());
    die("n3");
    EXPECT_THAT(rounds(9, ""), IsEmpty()) << "nobody looks";
    boot("n3");
}

// Nodes that answer pings, each at its own address of this host, unless they are silent.
class PingedNodes : public DeadNodesTest {
  protected:
    void SetUp() override {
        for (const char* node : {"n1", "n2", "n3"})
            boot(node);
        dead_ = DeadNodes({"n1", "n2"}, {"n3"}, "n1", ask_, [this](const auto& asked) {
            const auto answered = std::exchange(answered_, {});
            for (const std::string& address : asked) {
                if (!silent_.contains(address)) answered_.insert(address);
            }
            return answered;
        });
    }
    void lose_power(const std::string& node) {
        silent_.insert(daemons_[node].address);
        fall_silent(node);
    }
    std::set<std::string> silent_;

  private:
    std::set<std::string> answered_;
};

// Breaks when a job whose ranks wait for a host without power goes on to wait with them.
TEST_F(PingedNodes, OneThatAnswersNoMoreIsDead) {
    EXPECT_THAT(rounds(20, ""), IsEmpty());
    EXPECT_EQ(asked_, 1);
    EXPECT_EQ(connections("n2"), 0);
    lose_power("n2");
    EXPECT_THAT(rounds(12, ""), ElementsAre("n2"));
}

// Breaks when a network that fails for some seconds ends the job.
TEST_F(PingedNodes, OneThatAnswersAgainLives) {
    EXPECT_THAT(rounds(20, ""), IsEmpty());
    lose_power("n2");
    EXPECT_THAT(rounds(4, ""), IsEmpty());
    silent_.clear();
    EXPECT_THAT(rounds(20, ""), IsEmpty());
}

TEST_F(PingedNodes, AreNotSuspectedIfAllAreSilent) {
    EXPECT_THAT(rounds(20, ""), IsEmpty());
    lose_power("n2");
    lose_power("n3");
    EXPECT_THAT(rounds(20, ""), IsEmpty());
}

// Breaks when slurmd's log fills up because a firewall begins to drop pings, or when such a node is
// dead because its slurmd is restarted.
TEST_F(PingedNodes, OneThatAnswersElsewhereIsNoLongerSuspected) {
    EXPECT_THAT(rounds(9, ""), IsEmpty());
    silent_.insert(daemons_["n2"].address);
    EXPECT_THAT(rounds(40, ""), IsEmpty());
    EXPECT_EQ(connections("n2"), 1);
    die("n2");
    EXPECT_THAT(rounds(40, ""), IsEmpty());
}

// Breaks when jobs are ended on networks that let no pings pass.
TEST_F(PingedNodes, ThatNeverAnswerAreNotSuspected) {
    for (const char* node : {"n1", "n2", "n3"})
        silent_.insert(daemons_[node].address);
    lose_power("n2");
    EXPECT_THAT(rounds(40, ""), IsEmpty());
}

TEST_F(DeadNodesTest, ANodeThatRefusesForLongIsDead) {
    die("n2");
    EXPECT_THAT(rounds(1 + refusals, bad_end), IsEmpty());
    EXPECT_THAT(rounds(1, bad_end), ElementsAre("n2"));
    EXPECT_THAT(rounds(2, bad_end), ElementsAre("n2"));
    EXPECT_EQ(asked_, 1);
}

// Breaks when a host without power has as long as one whose slurmd starts again.
TEST_F(DeadNodesTest, ANodeThatIsSilentIsDeadSooner) {
    fall_silent("n2");
    EXPECT_THAT(rounds(DeadNodes::least_rounds, bad_end), IsEmpty());
    EXPECT_THAT(rounds(1, bad_end), ElementsAre("n2"));
}

TEST_F(DeadNodesTest, AllThatDieTogetherAreNamedTogether) {
    die("n2");
    die("n3");
    EXPECT_THAT(rounds(2 + refusals, bad_end), ElementsAre("n2", "n3"));
}

// Breaks when ranks that run well are ended because a node that waits is dead.
TEST_F(DeadNodesTest, ASpareNodeIsNamedOnlyWithOneOfTheStep) {
    die("n3");
    EXPECT_THAT(rounds(9, bad_end), IsEmpty());
    die("n2");
    EXPECT_THAT(rounds(1 + refusals, bad_end), ElementsAre("n2", "n3"));
}

// Breaks when an administrator who restarts a slurmd ends the job.
TEST_F(DeadNodesTest, ASlurmdThatIsRestartedIsNotDead) {
    die("n2");
    EXPECT_THAT(rounds(1 + refusals, bad_end), IsEmpty());
    boot("n2");
    EXPECT_THAT(rounds(1, bad_end), IsEmpty());
    die("n2");
    EXPECT_THAT(rounds(refusals, bad_end), IsEmpty());
    EXPECT_THAT(rounds(1, bad_end), ElementsAre("n2"));
}

// Breaks when a firewall around the nodes makes all of them dead.
TEST_F(DeadNodesTest, NothingIsKnownAsLongAsNoNodeAnswers) {
    for (const char* node : {"n1", "n2", "n3"})
        die(node);
    EXPECT_THAT(rounds(9, bad_end), IsEmpty());
}

TEST_F(DeadNodesTest, TheNodeOfThisProcessLives) {
    die("n1");
    EXPECT_THAT(rounds(9, bad_end), IsEmpty());
}

TEST_F(DeadNodesTest, AControllerThatDoesNotAnswerIsAskedLessOften) {
    die("n2");
    answers_ = false;
    EXPECT_THAT(rounds(60, bad_end), IsEmpty());
    EXPECT_THAT(asked_, testing::AllOf(testing::Ge(4), testing::Le(7)));
    answers_ = true;
    EXPECT_THAT(rounds(50, bad_end), ElementsAre("n2"));
}

TEST_F(DeadNodesTest, ANodeThatSlurmDoesNotKnowIsNotDead) {
    die("n2");
    daemons_.erase("n2");
    EXPECT_THAT(rounds(9, bad_end), IsEmpty());
}

// Breaks when a look that an alarm has begun goes on for as long as the ranks run.
TEST_F(DeadNodesTest, RanksThatStandStillAreReasonEnoughForAsLongAsTheyDo) {
    EXPECT_THAT(rounds(1, "", true), IsEmpty());
    die("n2");
    EXPECT_THAT(rounds(3, "", true), IsEmpty());
    EXPECT_THAT(rounds(9, ""), IsEmpty());
    EXPECT_THAT(rounds(refusals, "", true), IsEmpty());
    EXPECT_THAT(rounds(1, "", true), ElementsAre("n2"));
}

// Breaks when srun's own limit, after which it gives a node up, comes before ours.
TEST_F(DeadNodesTest, SrunMayEndBeforeItIsKnown) {
    const auto always = [] { return true; };
    EXPECT_THAT(dead_.wait(bad_end, always), IsEmpty()) << "all answer";
    fall_silent("n2");
    EXPECT_THAT(dead_.wait("", always), IsEmpty()) << "nothing has ended badly";
    EXPECT_THAT(dead_.wait(bad_end, [] { return false; }), IsEmpty()) << "the job is told to end";
    EXPECT_THAT(dead_.wait(bad_end, always), ElementsAre("n2"));
}

}  // namespace batchai::run
