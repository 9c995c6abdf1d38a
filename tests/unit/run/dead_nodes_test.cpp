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
    void boot(const std::string& node) {
        base::FileDescriptor& socket = slurmds_[node];
        socket = base::FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int on = 1;
        setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(daemons_[node].port));
        socklen_t length = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        ASSERT_EQ(bind(socket.get(), generic, length), 0);
        ASSERT_EQ(listen(socket.get(), 8), 0);
        ASSERT_EQ(getsockname(socket.get(), generic, &length), 0);
        daemons_[node] = {.address = "127.0.0.1", .port = ntohs(address.sin_port)};
    }
    void die(const std::string& node) { slurmds_[node].reset(-1); }
    // The next `rounds` rounds after srun has said `messages`.
    std::vector<std::string> rounds(int count, const std::string& messages) {
        std::vector<std::string> dead;
        for (; count > 0; --count) {
            dead = dead_.poll(messages, now_);
            now_ += DeadNodes::patience;
        }
        return dead;
    }

    std::map<std::string, base::FileDescriptor> slurmds_;
    DeadNodes::Daemons daemons_;
    bool answers_ = true;
    int asked_ = 0;
    DeadNodes dead_{{"n1", "n2", "n3"}, [this](const std::vector<std::string>&) {
                        ++asked_;
                        return answers_ ? base::Result<DeadNodes::Daemons>(daemons_)
                                        : tl::unexpected(base::Error{.what = "no answer"});
                    }};
    DeadNodes::Clock::time_point now_ = DeadNodes::Clock::now();
};

TEST_F(DeadNodesTest, NobodyLooksWhileAllTasksRun) {
    die("n2");
    EXPECT_THAT(rounds(9, ""), IsEmpty());
    EXPECT_THAT(rounds(9, "srun: job 7 queued\n"), IsEmpty());
    EXPECT_EQ(asked_, 0);
}

TEST_F(DeadNodesTest, ANodeThatDoesNotAnswerThreeTimesIsDead) {
    die("n2");
    EXPECT_THAT(rounds(3, bad_end), IsEmpty());
    EXPECT_THAT(rounds(1, bad_end), ElementsAre("n2"));
    EXPECT_THAT(rounds(2, bad_end), ElementsAre("n2"));
    EXPECT_EQ(asked_, 1);
}

TEST_F(DeadNodesTest, AllThatDieTogetherAreNamedTogether) {
    die("n2");
    die("n3");
    EXPECT_THAT(rounds(4, bad_end), ElementsAre("n2", "n3"));
}

// Breaks when an administrator who restarts a slurmd ends the job.
TEST_F(DeadNodesTest, ASlurmdThatIsRestartedIsNotDead) {
    die("n2");
    EXPECT_THAT(rounds(3, bad_end), IsEmpty());
    boot("n2");
    EXPECT_THAT(rounds(1, bad_end), IsEmpty());
    die("n2");
    EXPECT_THAT(rounds(2, bad_end), IsEmpty());
    EXPECT_THAT(rounds(1, bad_end), ElementsAre("n2"));
}

// Breaks when a firewall around the nodes makes all of them dead.
TEST_F(DeadNodesTest, NothingIsKnownAsLongAsNoNodeAnswers) {
    for (const char* node : {"n1", "n2", "n3"})
        die(node);
    EXPECT_THAT(rounds(9, bad_end), IsEmpty());
}

TEST_F(DeadNodesTest, AControllerThatDoesNotAnswerIsAskedAgain) {
    die("n2");
    answers_ = false;
    EXPECT_THAT(rounds(5, bad_end), IsEmpty());
    answers_ = true;
    EXPECT_THAT(rounds(3, bad_end), ElementsAre("n2"));
}

TEST_F(DeadNodesTest, ANodeThatSlurmDoesNotKnowIsNotDead) {
    die("n2");
    daemons_.erase("n2");
    EXPECT_THAT(rounds(9, bad_end), IsEmpty());
}

TEST_F(DeadNodesTest, RanksThatStandStillAreReasonEnough) {
    die("n2");
    dead_.suspect(now_);
    EXPECT_THAT(rounds(3, ""), ElementsAre("n2"));
}

}  // namespace batchai::run
