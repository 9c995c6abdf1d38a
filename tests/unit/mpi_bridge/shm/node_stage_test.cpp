// SPDX-License-Identifier: Apache-2.0
#include "shm/node_stage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "ranks.hpp"
#include "stage_calls.hpp"

namespace {

using namespace mpi_bridge_test;
using testing::Each;

// Around the longest that fits an entry, the longest flat one, one round of a stage and several.
std::vector<std::size_t> counts_around_thresholds(std::size_t item, int ranks) {
    const auto options = Group::small_stage();
    std::vector<std::size_t> counts = {0, 1};
    for (const std::size_t bytes : {mpi_bridge::shm::inline_bytes, options.flat_bytes,
                                    options.piece_bytes * static_cast<std::size_t>(ranks),
                                    3 * options.piece_bytes * static_cast<std::size_t>(ranks)}) {
        for (const std::size_t count : {bytes / item - 1, bytes / item, bytes / item + 1}) {
            counts.push_back(count);
        }
    }
    return counts;
}

// Every datatype and operation, with counts that do not divide. Many ranks take a share of the
// pairs only: each of them computes everybody's data, and few processors do it for all.
std::string check_all_reductions(Member& member, const Placement& place) {
    std::uint64_t seed = 0;
    const auto share = static_cast<std::uint64_t>(member.stage.size() > 3 ? 4 : 1);
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            if (++seed % share != 0) continue;
            const auto wrong = with_type(datatype, [&](auto type) {
                using T = decltype(type);
                for (const std::size_t bytes : {40UL, 250UL, 9001UL}) {
                    const Case item{turn("every pair"), datatype, op, bytes / sizeof(T), seed};
                    auto text = check_allreduce<T>(member, item, place);
                    if (text.empty()) text = check_partial<T>(member, item, place, -1);
                    if (text.empty()) text = check_partial<T>(member, item, place, 0);
                    if (!text.empty()) return text;
                }
                return std::string();
            });
            if (!wrong.empty()) return wrong;
        }
    }
    return {};
}

std::string check_all_lengths(Member& member, const Placement& place) {
    std::uint64_t seed = 0;
    const int last = member.stage.size() - 1;
    for (const std::size_t count : counts_around_thresholds(4, member.stage.size())) {
        const Case item{turn("every length"), MPIB_FLOAT32, MPIB_SUM, count, ++seed};
        auto text = check_allreduce<float>(member, item, place);
        if (text.empty()) text = check_partial<float>(member, item, place, -1);
        if (text.empty()) text = check_partial<float>(member, item, place, last);
        if (!text.empty()) return text;
    }
    for (const std::size_t count : counts_around_thresholds(1, member.stage.size())) {
        const Case item{turn("every length"), MPIB_INT8, MPIB_AVERAGE, count, ++seed};
        auto text = check_partial<std::int8_t>(member, item, place, last);
        if (text.empty()) text = check_broadcast(member, item, place, last);
        if (text.empty()) text = check_allgather(member, item, place);
        if (text.empty()) text = check_alltoall(member, item, place);
        if (!text.empty()) return text;
    }
    // Between two ranks, 7 and 14 bytes less than the longest parts that entries hold.
    for (const std::size_t count : {90UL, 91UL, 97UL, 98UL}) {
        for (int round = 0; round < 4; ++round) {
            const Case item{turn("short parts"), MPIB_INT8, MPIB_SUM, count, ++seed};
            if (auto text = check_alltoall(member, item, place); !text.empty()) return text;
        }
    }
    return {};
}

class NodeStageOf : public testing::TestWithParam<int> {
  protected:
    [[nodiscard]] static Group group(bool with_heaps) { return {GetParam(), with_heaps}; }
};

TEST_P(NodeStageOf, ReducesEveryDatatypeByEveryOperation) {
    for (const bool in_place : {false, true}) {
        const Placement place{false, false, in_place, 1};
        EXPECT_THAT(
            in_processes(group(false),
                         [&](Member& member) { return check_all_reductions(member, place); }),
            Each(""));
    }
}

TEST_P(NodeStageOf, ReducesWithoutCopyingInSharedHeaps) {
    for (const bool in_place : {false, true}) {
        const Placement place{true, true, in_place, 0};
        const auto body = [&](Member& member) {
            auto text = check_all_reductions(member, place);
            return text.empty() ? member.stage.why_not_direct() : text;
        };
        EXPECT_THAT(in_processes(group(true), body), Each(""));
    }
}

TEST_P(NodeStageOf, IsRightAroundEveryThreshold) {
    for (const bool shared : {false, true}) {
        const Placement place{shared, shared, false, 3};
        EXPECT_THAT(in_processes(group(true),
                                 [&](Member& member) { return check_all_lengths(member, place); }),
                    Each(""));
    }
}

TEST_P(NodeStageOf, WorksWhereOnlySomeBuffersAreInHeaps) {
    const auto body = [](Member& member) {
        const bool odd = member.stage.rank() % 2 == 1;
        return check_all_lengths(member, {odd, odd, !odd, 0});
    };
    EXPECT_THAT(in_processes(group(true), body), Each(""));
    const auto sources_only = [](Member& member) {
        return check_all_lengths(member, {true, member.stage.rank() != 0, false, 0});
    };
    EXPECT_THAT(in_processes(group(true), sources_only), Each(""));
}

INSTANTIATE_TEST_SUITE_P(Ranks, NodeStageOf, testing::Values(1, 2, 3, 5, 8, 16));

// Two ranks copy out of pieces of their own, five out of the same ones; neither from aligned
// places.
TEST(NodeStage, CopiesResultsThatAreLongerThanTheCaches) {
    const auto body = [](Member& member) {
        const bool shared = member.heap != nullptr;
        const Placement place{shared, shared, false, 3};
        constexpr std::size_t whole = mpi_bridge::shm::past_caches_from;
        const auto ranks = static_cast<std::size_t>(member.stage.size());
        const Case vector{turn("long"), MPIB_INT8, MPIB_SUM, whole + 77, 1};
        const Case part{turn("long"), MPIB_INT8, MPIB_SUM, whole / ranks + 77, 2};
        auto text = check_broadcast(member, vector, place, member.stage.size() - 1);
        if (text.empty()) text = check_allgather(member, part, place);
        if (text.empty()) text = check_alltoall(member, part, place);
        return text;
    };
    for (const int ranks : {2, 5}) {
        for (const bool heaps : {false, true}) {
            Group group{ranks, heaps};
            group.options.flat_bytes = 0;
            group.options.piece_bytes = 0;
            EXPECT_THAT(in_processes(group, body), Each("")) << ranks;
        }
    }
}

// Breaks when a byte before or after is written, or one is left out.
TEST(Copy, PastTheCachesWritesWhatItShouldAndNothingElse) {
    constexpr std::size_t longest = 300;
    std::vector<std::byte> from(longest + 64);
    for (std::size_t at = 0; at < from.size(); ++at)
        from[at] = static_cast<std::byte>(at);
    for (std::size_t offset = 0; offset < 64; ++offset) {
        for (std::size_t length = 0; length < longest; ++length) {
            std::vector<std::byte> to(longest + 128, std::byte{0xee});
            auto expected = to;
            std::copy_n(from.begin() + 5, length,
                        expected.begin() + static_cast<std::ptrdiff_t>(offset));
            mpi_bridge::shm::copy_past_caches(to.data() + offset, from.data() + 5, length);
            ASSERT_EQ(to, expected) << offset << ", " << length;
        }
    }
}

TEST(NodeStage, NeedsNoHeapOnEveryRank) {
    // Rank 0's heap alone opens nothing.
    const auto body = [](Member& member) {
        const Placement place{member.heap != nullptr, member.heap != nullptr, false, 0};
        auto text = check_all_lengths(member, place);
        if (text.empty() && member.stage.why_not_direct().empty())
            text = "went direct without heaps";
        return text;
    };
    EXPECT_THAT(in_processes({3, false}, body), Each(""));
}

TEST(NodeStage, KeepsAllFromLeavingABarrierBeforeAllHaveEntered) {
    const auto body = [](Member& member) -> std::string {
        // Each rank counts up its own cell in turn, between barriers; all must see all counts.
        for (std::uint32_t round = 1; round <= 200; ++round) {
            std::vector<std::uint32_t> cells(static_cast<std::size_t>(member.stage.size()));
            cells[static_cast<std::size_t>(member.stage.rank())] = round;
            std::vector<std::span<std::byte>> parts;
            for (auto& cell : cells)
                parts.push_back(std::as_writable_bytes(std::span(&cell, 1)));
            if (auto done = member.stage.barrier(turn("barrier")); !done) return done.error().text;
            if (auto done = member.stage.allgather(turn("cells"), parts); !done) {
                return done.error().text;
            }
            for (const auto cell : cells) {
                if (cell != round) return "a rank is in another round";
            }
        }
        return {};
    };
    EXPECT_THAT(in_processes({3, false}, body), Each(""));
}

TEST(NodeStage, SurvivesSlowRanks) {
    // Ranks that come late by milliseconds, in turns, so that the others sleep.
    const auto body = [](Member& member) -> std::string {
        for (std::uint64_t call = 0; call < 30; ++call) {
            const bool late = call % 3 == static_cast<std::uint64_t>(member.stage.rank());
            if (late) ::usleep(3000);
            const std::size_t count = call % 2 == 0 ? 5 : 5000;
            const Case item{turn("late"), MPIB_FLOAT32, MPIB_SUM, count, call};
            auto text = check_allreduce<float>(member, item, {});
            if (text.empty()) text = check_broadcast(member, item, {}, static_cast<int>(call % 3));
            if (!text.empty()) return text;
        }
        return {};
    };
    EXPECT_THAT(in_processes({3, false}, body), Each(""));
}

// Calls of random kinds, lengths and placements, back to back, with hiccups: whatever is
// overwritten too early or read too late shows.
std::string run_at_random(Member& member, int calls) {
    std::mt19937_64 common(42);  // the same on all ranks
    std::mt19937_64 own(static_cast<std::uint64_t>(member.stage.rank()));
    const auto ranks = static_cast<std::uint64_t>(member.stage.size());
    for (int call = 0; call < calls; ++call) {
        const auto kind = common() % 6;
        const int root = static_cast<int>(common() % ranks);
        const std::size_t most = std::size_t{1} << (common() % 15);
        const Case item{turn("at random"), MPIB_INT32, MPIB_SUM, common() % most, common()};
        const Placement place{own() % 4 != 0, own() % 4 != 0, own() % 2 == 0, own() % 3};
        if (own() % 64 == 0) ::usleep(static_cast<unsigned>(own() % 300));
        if (own() % 8 == 0) ::sched_yield();
        std::string text;
        if (kind == 0 || kind == 1) {
            text = check_allreduce<std::int32_t>(member, item, place);
        } else if (kind == 2) {
            text = check_partial<std::int32_t>(member, item, place, -1);
        } else if (kind == 3) {
            text = check_partial<std::int32_t>(member, item, place, root);
        } else if (kind == 4) {
            text = check_broadcast(member, item, place, root);
        } else {
            text = check_allgather(member, item, place);
        }
        if (!text.empty()) return "call " + std::to_string(call) + ": " + text;
    }
    return {};
}

// The root takes its results while the others are in the next call already, which puts its data on
// the staging buffers before anything that the root waits for.
std::string broadcast_right_after_reduce(Member& member) {
    constexpr int times = 400;
    constexpr std::size_t count = 80000;
    const int ranks = member.stage.size();
    const int rank = member.stage.rank();
    const int root = ranks - 1;
    const auto& sum = *mpi_bridge::find_reduction(MPIB_INT32, MPIB_SUM);
    std::vector<std::int32_t> own(count);
    std::vector<std::int64_t> sums(count);
    std::vector<std::int32_t> message(count);
    for (int time = 1; time <= times; ++time) {
        std::fill(own.begin(), own.end(), time);
        std::fill(message.begin(), message.end(), rank == 0 ? -time : 0);
        auto* const target = reinterpret_cast<std::byte*>(sums.data());
        const auto* const send = reinterpret_cast<const std::byte*>(own.data());
        if (auto done = member.stage.reduce(turn("reduce"), sum, send, target, count, root); !done)
            return done.error().text;
        if (auto done = member.stage.broadcast(turn("broadcast"),
                                               std::as_writable_bytes(std::span(message)), 0);
            !done)
            return done.error().text;
        const auto* const results = reinterpret_cast<const std::int32_t*>(sums.data());
        for (std::size_t at = 0; at < count; ++at) {
            if (rank == root && results[at] != time * ranks) return "a wrong sum";
            if (message[at] != -time) return "a wrong message";
        }
    }
    return {};
}

TEST(NodeStage, LeavesResultsInTheStagingBuffersUntilTheyAreRead) {
    for (const int ranks : {2, 4, 5, 8}) {
        Group group{ranks, false};
        group.options.flat_bytes = 0;
        group.options.piece_bytes = 0;
        EXPECT_THAT(in_processes(group, broadcast_right_after_reduce), Each("")) << ranks;
    }
}

class NodeStageAtRandom : public testing::TestWithParam<int> {};

TEST_P(NodeStageAtRandom, NeverMixesUpCallsOfProcesses) {
    const auto body = [](Member& member) { return run_at_random(member, 600); };
    EXPECT_THAT(in_processes({GetParam(), true}, body), Each(""));
}

TEST_P(NodeStageAtRandom, NeverMixesUpCallsOfThreads) {
    const auto body = [](Member& member) { return run_at_random(member, 300); };
    EXPECT_THAT(in_threads({GetParam(), true}, body), Each(""));
}

INSTANTIATE_TEST_SUITE_P(Ranks, NodeStageAtRandom, testing::Values(2, 3, 5));

TEST(NodeStage, WorksWithItsDefaultThresholds) {
    Group group{2, true};
    group.options.flat_bytes = 0;
    group.options.piece_bytes = 0;
    const auto body = [](Member& member) -> std::string {
        std::uint64_t seed = 0;
        for (const std::size_t count : {1UL, 3000UL, 100001UL, 700000UL}) {
            const Case item{turn("defaults"), MPIB_FLOAT32, MPIB_SUM, count, ++seed};
            for (const bool shared : {false, true}) {
                auto text = check_allreduce<float>(member, item, {shared, shared, true, 0});
                if (text.empty())
                    text = check_broadcast(member, item, {shared, shared, true, 0}, 1);
                if (!text.empty()) return text;
            }
        }
        return {};
    };
    EXPECT_THAT(in_processes(group, body), Each(""));
}

TEST(NodeStage, IsMadeAndEndedAgainAndAgain) {
    for (int i = 0; i < 20; ++i) {
        const auto body = [](Member& member) {
            return check_allreduce<float>(member, {turn(), MPIB_FLOAT32, MPIB_MAX, 3000, 1}, {});
        };
        ASSERT_THAT(in_threads({2, true}, body), Each(""));
    }
    EXPECT_THAT(segments_of(::getpid()), testing::IsEmpty());
}

}  // namespace
