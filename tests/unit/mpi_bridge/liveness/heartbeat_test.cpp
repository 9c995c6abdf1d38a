// SPDX-License-Identifier: Apache-2.0
//
// Heartbeats of several ranks in this process, over real sockets. A heartbeat that listens but has
// not been started is what others see of a frozen rank.
#include "liveness/heartbeat.hpp"

#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process_stat.hpp"
#include "liveness/identity.hpp"
#include "transport/tcp/address.hpp"

namespace {

using mpi_bridge::Clock;
using mpi_bridge::Failure;
using mpi_bridge::FailureToken;
using mpi_bridge::Heartbeat;
using mpi_bridge::Seconds;
using mpi_bridge::StallSettings;
using mpi_bridge::Waits;
using testing::HasSubstr;

// When to report a wait for a rank that does not answer, and for one that does: on a busy machine,
// an answer may take most of a second.
constexpr Seconds soon{0.6};
constexpr Seconds after_an_answer{3};

class Ranks {
  public:
    // hosts: of each rank. All listen at sockets of this host.
    explicit Ranks(const std::vector<int>& hosts, const StallSettings& stall = {}) {
        for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
            auto& made = ranks_.emplace_back(std::make_unique<Rank>());
            Heartbeat::Options options;
            options.rank = static_cast<int>(rank);
            options.size = options.local_size = static_cast<int>(hosts.size());
            options.host_of_rank = hosts;
            options.addresses = {mpi_bridge::TcpEndpoint::own_host};
            options.address_of = [this](int other) -> mpi_bridge::Outcome<std::vector<std::byte>> {
                return ranks_[static_cast<std::size_t>(other)]->address;
            };
            options.failure = &made->failure;
            options.waits = &made->waits;
            options.stall = stall;
            options.report = [&made = *made](const std::string& text) {
                const std::lock_guard lock(made.mutex);
                made.reported += text;
            };
            options.engine_is_awaited = [&made = *made] { ++made.engine_was_awaited; };
            auto heartbeat = Heartbeat::open(std::move(options));
            if (!heartbeat) throw std::runtime_error(heartbeat.error().text);
            made->heartbeat = std::move(*heartbeat);
            made->address = made->heartbeat->address();
            made->failure.enquire_with([&made = *made](Failure failure) {
                return made.heartbeat->enquire(std::move(failure));
            });
        }
    }
    void start(const std::vector<int>& ranks) {
        for (const int rank : ranks)
            heartbeat(rank).start();
    }
    void end(int rank) { at(rank).heartbeat.reset(); }

    Heartbeat& heartbeat(int rank) { return *at(rank).heartbeat; }
    FailureToken& failure(int rank) { return at(rank).failure; }
    Waits& waits(int rank) { return at(rank).waits; }
    std::vector<std::byte>& address(int rank) { return at(rank).address; }
    int engine_was_awaited(int rank) { return at(rank).engine_was_awaited; }
    std::string reported(int rank) {
        const std::lock_guard lock(at(rank).mutex);
        return at(rank).reported;
    }

    [[nodiscard]] bool comes_to_fail(int rank) {
        const auto end = Clock::now() + std::chrono::seconds(10);
        while (!failure(rank).failed() && Clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return failure(rank).failed();
    }
    [[nodiscard]] std::string comes_to_report(int rank) {
        const auto end = Clock::now() + std::chrono::seconds(10);
        while (reported(rank).empty() && Clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return reported(rank);
    }

  private:
    struct Rank {
        FailureToken failure;
        Waits waits;
        std::vector<std::byte> address;
        std::mutex mutex;
        std::string reported;
        std::atomic<int> engine_was_awaited{0};
        std::unique_ptr<Heartbeat> heartbeat;
    };
    Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

    std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST(Heartbeat, TellsAFailureToAllRanks) {
    Ranks ranks({0, 0, 0, 0, 0, 0, 0});
    ranks.start({0, 1, 2, 3, 4, 5, 6});
    ranks.failure(3).fail({MPIB_ERROR_MISMATCH, "allreduce: other arguments"});
    for (int rank = 0; rank < 7; ++rank) {
        ASSERT_TRUE(ranks.comes_to_fail(rank)) << rank;
        const Failure& cause = ranks.failure(rank).cause();
        EXPECT_EQ(cause.status, MPIB_ERROR_MISMATCH);
        EXPECT_EQ(cause.text, rank == 3 ? "allreduce: other arguments"
                                        : "rank 3 failed: allreduce: other arguments");
        EXPECT_EQ(cause.of_rank, rank == 3 ? -1 : 3);
    }
}

TEST(Heartbeat, TellsAFailureToAllThatAreLeft) {
    Ranks ranks({0, 0, 0, 0, 0, 0, 0, 0});
    ranks.start({0, 1, 2, 3, 4, 5, 6, 7});
    ranks.end(1);
    ranks.end(2);
    ranks.failure(0).fail({MPIB_ERROR_INTERNAL, "out of memory"});
    for (const int rank : {0, 3, 4, 5, 6, 7})
        EXPECT_TRUE(ranks.comes_to_fail(rank)) << rank;
}

// The process ends right after.
TEST(Heartbeat, TellsAFailureBeforeItEnds) {
    Ranks ranks({0, 0});
    ranks.start({0, 1});
    ranks.failure(0).fail({MPIB_ERROR_INTERNAL, "out of memory"});
    ranks.end(0);
    ASSERT_TRUE(ranks.comes_to_fail(1));
    EXPECT_EQ(ranks.failure(1).cause().text, "rank 0 failed: out of memory");
}

TEST(Heartbeat, FindsOutWhyARankBrokeItsConnections) {
    Ranks ranks({0, 0, 0});
    ranks.start({0, 1, 2});
    ranks.failure(2).fail({MPIB_ERROR_INTERNAL, "out of memory"});
    const Failure& cause = ranks.failure(0).fail(
        {.status = MPIB_ERROR_PEER_LOST, .text = "rank 2 (the connection broke)", .of_rank = 2});
    EXPECT_EQ(cause.text, "rank 2 failed: out of memory");
}

// The library breaks the connections, and then tells the heartbeat.
TEST(Heartbeat, SaysWhyBeforeItIsToldOfTheFailure) {
    Ranks ranks({0, 0, 0});
    std::string cause;
    const FailureToken::Watch breaks_connections(ranks.failure(2), [&](const Failure&) {
        cause = ranks.failure(0)
                    .fail({.status = MPIB_ERROR_PEER_LOST,
                           .text = "rank 2 (the connection broke)",
                           .of_rank = 2})
                    .text;
    });
    ranks.start({0, 1, 2});
    ranks.failure(2).fail({MPIB_ERROR_INTERNAL, "out of memory"});
    EXPECT_EQ(cause, "rank 2 failed: out of memory");
}

TEST(Heartbeat, HasNothingToAddToTheLossOfARankThatHasDied) {
    Ranks ranks({0, 0});
    ranks.start({0, 1});
    ranks.end(1);
    const Failure& cause = ranks.failure(0).fail(
        {.status = MPIB_ERROR_PEER_LOST, .text = "rank 1 (the connection broke)", .of_rank = 1});
    EXPECT_EQ(cause.text, "rank 1 (the connection broke)");
}

TEST(Heartbeat, ReportsARankThatDoesNotAnswer) {
    for (const auto lane : {Waits::Lane::direct, Waits::Lane::engine}) {
        Ranks ranks({0, 0}, {soon, Seconds(0)});
        ranks.start({0});
        const Waits::Waiting wait(&ranks.waits(0), 1, lane);
        EXPECT_THAT(ranks.comes_to_report(0),
                    HasSubstr("does not answer, although its process is there"));
        EXPECT_FALSE(ranks.failure(0).failed());
    }
}

// Breaks when a rank whose engine has not begun does not hear that others wait for it.
TEST(Heartbeat, TellsARankThatItsEngineIsAwaited) {
    for (const auto lane : {Waits::Lane::direct, Waits::Lane::engine, Waits::Lane::negotiation}) {
        Ranks ranks({0, 0}, {after_an_answer, Seconds(0)});
        ranks.start({0, 1});
        const Waits::Waiting wait(&ranks.waits(0), 1, lane);
        // By then the other rank was asked, and has answered if the wait is reported at all.
        if (lane == Waits::Lane::direct) {
            EXPECT_THAT(ranks.comes_to_report(0), HasSubstr("has not come to this call"));
            EXPECT_EQ(ranks.engine_was_awaited(1), 0);
            continue;
        }
        const auto end = Clock::now() + std::chrono::seconds(10);
        while (ranks.engine_was_awaited(1) == 0 && Clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        EXPECT_NE(ranks.engine_was_awaited(1), 0);
        if (lane == Waits::Lane::negotiation) {
            EXPECT_THAT(ranks.comes_to_report(0), HasSubstr("has not come to this call"));
        }
    }
}

// Rank 1 is stopped, and rank 2 on its host is asked about it.
TEST(Heartbeat, ReportsAStoppedRankOfAnotherHost) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        for (;;)
            pause();
    }
    ASSERT_EQ(kill(child, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    Ranks ranks({0, 1, 1}, {after_an_answer, Seconds(0)});
    auto address = mpi_bridge::HeartbeatAddress::parse(ranks.address(1));
    ASSERT_TRUE(address);
    const auto stat =
        mpi_bridge::parse_process_stat(*mpi_bridge::read_process_stat(std::to_string(child)));
    address->identity = {.host = "n2", .process = child, .start = stat->start};
    ranks.address(1) = address->bytes();
    ranks.start({0, 2});
    {
        const Waits::Waiting wait(&ranks.waits(0), 1, Waits::Lane::direct);
        const auto text = ranks.comes_to_report(0);
        EXPECT_THAT(text, HasSubstr("for rank 1 (host n2, process " + std::to_string(child) + ")"));
        EXPECT_THAT(text, HasSubstr("stopped by a signal"));
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
}

TEST(Heartbeat, ReportsAHostThatDoesNotAnswer) {
    Ranks ranks({0, 1, 1}, {soon, Seconds(0)});
    ranks.start({0});
    const Waits::Waiting wait(&ranks.waits(0), 1, Waits::Lane::direct);
    EXPECT_THAT(ranks.comes_to_report(0), HasSubstr("neither does rank 2 of the same host"));
}

TEST(Heartbeat, ReportsARankThatRunsButDoesNotCome) {
    Ranks ranks({0, 0}, {after_an_answer, Seconds(0)});
    ranks.start({0, 1});
    const Waits::Waiting wait(&ranks.waits(0), 1, Waits::Lane::direct);
    EXPECT_THAT(ranks.comes_to_report(0), HasSubstr("which runs, but has not come to this call"));
    EXPECT_FALSE(ranks.failure(0).failed());
}

TEST(Heartbeat, FailsWhenARankThatIsWaitedForHasEnded) {
    Ranks ranks({0, 0}, {Seconds(1), Seconds(0)});
    ranks.start({0, 1});
    ranks.end(1);
    const Waits::Waiting wait(&ranks.waits(0), 1, Waits::Lane::direct);
    ASSERT_TRUE(ranks.comes_to_fail(0));
    EXPECT_EQ(ranks.failure(0).cause().status, MPIB_ERROR_PEER_LOST);
    EXPECT_THAT(ranks.failure(0).cause().text, HasSubstr("rank 1 has ended"));
}

TEST(Heartbeat, GivesUpWhenTheSettingsSaySo) {
    Ranks ranks({0, 0}, {Seconds(0), Seconds(0.4)});
    ranks.start({0});
    const Waits::Waiting wait(&ranks.waits(0), 1, Waits::Lane::direct);
    ASSERT_TRUE(ranks.comes_to_fail(0));
    EXPECT_EQ(ranks.failure(0).cause().status, MPIB_ERROR_TIMEOUT);
    EXPECT_THAT(ranks.failure(0).cause().text, HasSubstr("waiting for rank 1"));
}

TEST(Heartbeat, EndsWhenNothingHappened) {
    for (int round = 0; round < 20; ++round) {
        Ranks ranks({0, 0, 0, 0});
        ranks.start({0, 1, 2, 3});
    }
}

TEST(HeartbeatOpen, SaysWhyItCannotListen) {
    FailureToken failure;
    Waits waits;
    Heartbeat::Options options;
    options.size = options.local_size = 2;
    options.host_of_rank = {0, 0};
    options.addresses = {"203.0.113.7"};  // reserved for documentation, so no host has it
    options.failure = &failure;
    options.waits = &waits;
    const auto heartbeat = Heartbeat::open(std::move(options));
    ASSERT_FALSE(heartbeat);
    EXPECT_NE(heartbeat.error().text, "");
}

}  // namespace
