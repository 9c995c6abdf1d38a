// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process_stat.hpp"
#include "ranks.hpp"
#include "stage_calls.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Seconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t short_count = 4;    // flat
constexpr std::size_t long_count = 9000;  // staged, several rounds

Done sum(Member& member, std::size_t count, Seconds patience = Seconds(60),
         std::uint64_t digest = 0) {
    std::vector<float> data(count, 1.0F);
    auto* const place = reinterpret_cast<std::byte*>(data.data());
    return member.stage.allreduce({"sum of gradients", digest, patience},
                                  *mpi_bridge::find_reduction(MPIB_FLOAT32, MPIB_SUM), place, place,
                                  count);
}

// "status: text" of the first failure, "" if there is none.
std::string outcome(const Done& done) {
    return done ? "" : std::to_string(done.error().status) + ": " + done.error().text;
}

std::string status(mpib_status status) {
    return std::to_string(status) + ": ";
}

TEST(NodeStage, NoticesAKilledRank) {
    for (const std::size_t count : {short_count, long_count}) {
        const auto body = [&](Member& member) -> std::string {
            for (int call = 0;; ++call) {
                if (call == 20 && member.stage.rank() == 1) ::raise(SIGKILL);
                if (const auto done = sum(member, count); !done) return outcome(done);
            }
        };
        const auto results = in_processes({3, false}, body);
        EXPECT_EQ(results[1], "signal 9");
        for (const int rank : {0, 2}) {
            EXPECT_THAT(
                results[static_cast<std::size_t>(rank)],
                AllOf(StartsWith(status(MPIB_ERROR_PEER_LOST)), HasSubstr("sum of gradients"),
                      HasSubstr("step "), HasSubstr("lost local rank 1 (process ")));
        }
    }
}

// The process of the local rank 1, which another rank of a test looks at.
class ProcessOfRank1 {
  public:
    ProcessOfRank1()
        : process_(static_cast<std::atomic<pid_t>*>(::mmap(nullptr, sizeof(std::atomic<pid_t>),
                                                           PROT_READ | PROT_WRITE,
                                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
    ~ProcessOfRank1() { ::munmap(process_, sizeof *process_); }
    ProcessOfRank1(const ProcessOfRank1&) = delete;
    ProcessOfRank1& operator=(const ProcessOfRank1&) = delete;

    // Rank 1 says that it is this process.
    void is_this_one() { *process_ = ::getpid(); }
    [[nodiscard]] pid_t number() const { return *process_; }
    // Waits until it has a state of ps(1): 'T' if it is stopped, or 'Z' if it is dead, since the
    // test asks for its end only after that of rank 0. The alarm of ranks.cpp ends a wait in vain.
    void comes_to(char state) const {
        while (true) {
            const auto text = mpi_bridge::read_process_stat(std::to_string(number()));
            const auto stat = text ? mpi_bridge::parse_process_stat(*text) : std::nullopt;
            if (stat && stat->state == state) return;
            ::usleep(1000);
        }
    }

  private:
    std::atomic<pid_t>* process_;
};

TEST(NodeStage, NoticesARankThatIsKilledWhileItSleeps) {
    ProcessOfRank1 killed;
    // Rank 0 does not come; rank 1 sleeps in the call when it is killed.
    const auto body = [&](Member& member) -> std::string {
        if (member.stage.rank() == 1) killed.is_this_one();
        if (const auto done = sum(member, short_count); !done) return outcome(done);
        if (member.stage.rank() == 1) ::alarm(1);
        if (member.stage.rank() == 0) killed.comes_to('Z');
        return outcome(sum(member, long_count));
    };
    const auto results = in_processes({3, false}, body);
    EXPECT_EQ(results[1], "signal 14");
    EXPECT_THAT(results[0], StartsWith(status(MPIB_ERROR_PEER_LOST)));
    EXPECT_THAT(results[2], StartsWith(status(MPIB_ERROR_PEER_LOST)));
}

TEST(NodeStage, NoticesARankThatLeftTooEarly) {
    const auto body = [](Member& member) -> std::string {
        if (const auto done = sum(member, short_count); !done) return outcome(done);
        if (member.stage.rank() == 2) {
            member.leave();
            ::usleep(300'000);
            return {};
        }
        return outcome(sum(member, short_count));
    };
    const auto results = in_processes({3, false}, body);
    EXPECT_EQ(results[2], "");
    EXPECT_THAT(results[0], AllOf(StartsWith(status(MPIB_ERROR_PEER_LOST)),
                                  HasSubstr("local rank 2 "), HasSubstr("has left")));
}

TEST(NodeStage, GivesUpOnAStoppedRankWhenItsPatienceEnds) {
    ProcessOfRank1 stopped;
    const auto body = [&](Member& member) -> std::string {
        if (member.stage.rank() == 1) stopped.is_this_one();
        if (const auto done = sum(member, long_count); !done) return outcome(done);
        if (member.stage.rank() == 1) ::raise(SIGSTOP);
        if (member.stage.rank() == 0) stopped.comes_to('T');
        const std::string end = outcome(sum(member, long_count, Seconds(0.5)));
        // It goes on when the other has given up.
        if (member.stage.rank() == 0) ::kill(stopped.number(), SIGCONT);
        return end;
    };
    const auto results = in_processes({2, false}, body);
    EXPECT_THAT(results[0],
                AllOf(StartsWith(status(MPIB_ERROR_TIMEOUT)), HasSubstr("after 0.5 s"),
                      HasSubstr("step "), HasSubstr("waiting for local rank 1 (process ")));
    // The late one learns that it is late, rather than waiting in its turn.
    EXPECT_THAT(results[1], AllOf(StartsWith(status(MPIB_ERROR_TIMEOUT)),
                                  HasSubstr("local rank 0 (process "), HasSubstr("failed first")));
}

TEST(NodeStage, TellsEveryRankOfAMismatch) {
    const auto other_count = [](Member& member) {
        return outcome(sum(member, member.stage.rank() == 1 ? long_count : short_count));
    };
    EXPECT_THAT(in_processes({3, false}, other_count),
                Each(AllOf(StartsWith(status(MPIB_ERROR_MISMATCH)), HasSubstr("local rank 1"),
                           HasSubstr("of 3"))));
    const auto other_digest = [](Member& member) {
        return outcome(sum(member, short_count, Seconds(60), member.stage.rank() == 1 ? 1 : 2));
    };
    EXPECT_THAT(in_processes({2, false}, other_digest),
                Each(AllOf(StartsWith(status(MPIB_ERROR_MISMATCH)), HasSubstr("local rank 0"),
                           HasSubstr("local rank 1"))));
    const auto other_root = [](Member& member) {
        std::byte data[8] = {};
        return outcome(member.stage.broadcast(turn("broadcast"), data, member.stage.rank()));
    };
    EXPECT_THAT(in_processes({2, false}, other_root),
                Each(StartsWith(status(MPIB_ERROR_MISMATCH))));
}

// Breaks when a length is not compared, in an entry or before a piece.
TEST(NodeStage, TellsTheReceiverOfAPartOfAnotherLength) {
    for (const auto& [sent, expected] :
         {std::pair(8UL, 16UL), {16UL, 8UL}, {8UL, 200UL}, {200UL, 8UL}}) {
        const auto body = [sent = sent, expected = expected](Member& member) {
            std::vector<std::byte> memory(512);
            const std::span whole(memory);
            const auto own = static_cast<std::size_t>(member.stage.rank());
            std::vector<std::span<const std::byte>> out(2);
            std::vector<std::span<std::byte>> in(2);
            out[1 - own] = whole.first(own == 0 ? sent : 1);
            in[1 - own] = whole.last(own == 0 ? 1 : expected);
            return outcome(member.stage.alltoall(turn("alltoall"), out, in));
        };
        EXPECT_THAT(in_processes({2, false}, body)[1],
                    AllOf(StartsWith(status(MPIB_ERROR_MISMATCH)),
                          HasSubstr(fmt::format("local rank 0 sends {} bytes where {} are expected",
                                                sent, expected))));
    }
}

TEST(NodeStage, FailsForAllWhenOneRankAbandonsIt) {
    const auto body = [](Member& member) -> std::string {
        if (const auto done = sum(member, short_count); !done) return outcome(done);
        if (member.stage.rank() == 0) {
            ::usleep(200'000);  // the others sleep by now
            member.stage.abandon("the network is down");
        }
        return outcome(sum(member, long_count));
    };
    EXPECT_THAT(in_processes({3, false}, body),
                Each(AllOf(StartsWith(status(MPIB_ERROR_PEER_LOST)), HasSubstr("local rank 0"),
                           HasSubstr("the network is down"))));
}

TEST(NodeStage, StaysBroken) {
    const auto body = [](Member& member) -> std::string {
        const auto first = sum(member, member.stage.rank() == 1 ? long_count : short_count);
        const auto second = sum(member, short_count);
        return first ? "no failure" : outcome(second);
    };
    EXPECT_THAT(in_processes({2, false}, body),
                Each(AllOf(StartsWith(status(MPIB_ERROR_MISMATCH)), HasSubstr("failed first"))));
}

TEST(NodeStage, IsNotEndedByAForkedChild) {
    const auto body = [](Member& member) -> std::string {
        for (int call = 0; call < 5; ++call) {
            if (const auto done = sum(member, long_count); !done) return outcome(done);
            const pid_t child = ::fork();
            if (child == 0) {
                member.leave();
                std::_Exit(0);
            }
            ::waitpid(child, nullptr, 0);
            ::usleep(static_cast<unsigned>(member.stage.rank()) * 150'000);  // look at each other
        }
        return {};
    };
    EXPECT_THAT(in_processes({2, true}, body), Each(""));
}

TEST(NodeStage, GivesUpOnRanksThatNeverAttach) {
    auto options = Group::small_stage();
    options.size = 2;
    options.patience = Seconds(0.2);
    const auto stage = mpi_bridge::NodeStage::create(options);
    ASSERT_TRUE(stage) << stage.error().text;
    const auto done = (*stage)->barrier(turn("barrier"));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().status, MPIB_ERROR_TIMEOUT);
    EXPECT_THAT(done.error().text, HasSubstr("local rank 1 (not attached yet)"));
}

TEST(NodeStage, RefusesRanksThatCannotBe) {
    auto options = Group::small_stage();
    options.size = mpi_bridge::NodeStage::most_ranks + 1;
    EXPECT_EQ(mpi_bridge::NodeStage::create(options).error().status, MPIB_ERROR_INVALID_ARGUMENT);
    options.size = 2;
    options.rank = 2;
    EXPECT_EQ(mpi_bridge::NodeStage::create(options).error().status, MPIB_ERROR_INVALID_ARGUMENT);
    options.rank = 0;
    const auto stage = mpi_bridge::NodeStage::create(options);
    ASSERT_TRUE(stage);
    options.rank = 1;
    options.size = 3;
    EXPECT_EQ(mpi_bridge::NodeStage::attach(options, (*stage)->ticket()).error().status,
              MPIB_ERROR_MISMATCH);
}

}  // namespace
