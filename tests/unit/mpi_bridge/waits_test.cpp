// SPDX-License-Identifier: Apache-2.0
#include "core/waits.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/visible_state.hpp"

namespace {

using mpi_bridge::Waits;

TEST(Waits, AreSeenWhileTheyLast) {
    Waits waits;
    EXPECT_TRUE(waits.now().empty());
    std::optional<Waits::Waiting> wait;
    for (const auto lane : {Waits::Lane::direct, Waits::Lane::negotiation, Waits::Lane::engine}) {
        wait.emplace(&waits, 7, lane);
        ASSERT_EQ(waits.now().size(), 1U);
        EXPECT_EQ(waits.now()[0].rank, 7);
        EXPECT_EQ(waits.now()[0].lane, lane);
    }
    const auto first = waits.now();
    wait->go_on_for(9);
    const auto second = waits.now();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].rank, 9);
    EXPECT_EQ(second[0].serial, first[0].serial);
    wait.reset();
    EXPECT_TRUE(waits.now().empty());
}

// What another process of the user reads through /proc/PID/fd.
std::unique_ptr<mpi_bridge::VisibleLayout> visible_from_outside() {
    auto copy = std::make_unique<mpi_bridge::VisibleLayout>();
    copy->format = {};
    for (int number = 3; number < 1024; ++number) {
        std::array<char, 64> link{};
        const std::string path = "/proc/self/fd/" + std::to_string(number);
        if (readlink(path.c_str(), link.data(), link.size() - 1) < 0 ||
            std::string(link.data()) != "/memfd:mpi_bridge-state (deleted)")
            continue;
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        EXPECT_EQ(pread(file, static_cast<void*>(copy.get()), sizeof *copy, 0),
                  static_cast<ssize_t>(sizeof *copy));
        close(file);
    }
    return copy;
}

TEST(VisibleState, IsSeenFromOutside) {
    mpi_bridge::VisibleState state;
    state.show_rank(3);
    const Waits::Waiting wait(&state.waits(), 7, Waits::Lane::direct);
    state.operations().show(0, "0 allreduce 12 \"a\"\n");
    state.operations().show(2, "2 broadcast 13 \"b\"\n");
    const auto seen = visible_from_outside();
    EXPECT_EQ(seen->format, mpi_bridge::VisibleLayout::this_format);
    EXPECT_EQ(seen->process, getpid());
    EXPECT_EQ(seen->rank, 3);
    const auto waits = mpi_bridge::waits_in(seen->waits);
    ASSERT_EQ(waits.size(), 1U);
    EXPECT_EQ(waits[0].rank, 7);
    const auto version = seen->operations.version.load();
    EXPECT_EQ(mpi_bridge::operations_in(seen->operations, version),
              "0 allreduce 12 \"a\"\n2 broadcast 13 \"b\"\n");
    // It was changed while it was copied.
    EXPECT_EQ(mpi_bridge::operations_in(seen->operations, version + 2), std::nullopt);
    state.operations().show(0, "");
    const auto later = visible_from_outside();
    EXPECT_EQ(mpi_bridge::operations_in(later->operations, later->operations.version),
              "2 broadcast 13 \"b\"\n");
}

// Breaks when a line is cut, or the table is left.
TEST(VisibleState, ShowsWholeLinesOnly) {
    mpi_bridge::VisibleState state;
    std::string lines;
    for (int i = 0; i < 2000; ++i)
        lines += "0 allreduce 12 \"" + std::to_string(i) + "\"\n";
    state.operations().show(0, lines);
    const auto seen = visible_from_outside();
    const auto text = mpi_bridge::operations_in(seen->operations, seen->operations.version);
    ASSERT_TRUE(text);
    EXPECT_GT(text->size(), 16000U);
    EXPECT_EQ(text->back(), '\n');
    EXPECT_TRUE(lines.starts_with(*text));
}

TEST(Waits, AreToldFromLaterOnesForTheSameRank) {
    Waits waits;
    std::optional<Waits::Waiting> wait;
    wait.emplace(&waits, 1, Waits::Lane::direct);
    const auto first = waits.now();
    wait.reset();
    wait.emplace(&waits, 1, Waits::Lane::direct);
    const auto second = waits.now();
    ASSERT_EQ(first.size(), 1U);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(first[0].place, second[0].place);
    EXPECT_NE(first[0].serial, second[0].serial);
}

TEST(Waits, OfManyThreadsAtATimeAreAllSeenAndMoreThanThereArePlacesDoNoHarm) {
    for (const int threads_count : {8, 100}) {
        Waits waits;
        std::atomic<int> waiting{0};
        std::atomic<bool> end{false};
        std::vector<std::thread> threads;
        for (int rank = 0; rank < threads_count; ++rank) {
            threads.emplace_back([&, rank] {
                const Waits::Waiting wait(&waits, rank, Waits::Lane::direct);
                ++waiting;
                while (!end)
                    std::this_thread::yield();
            });
        }
        while (waiting != threads_count)
            std::this_thread::yield();
        EXPECT_EQ(waits.now().size(), threads_count == 8 ? 8U : 64U);
        end = true;
        for (auto& thread : threads)
            thread.join();
        EXPECT_TRUE(waits.now().empty());
    }
}

TEST(Waits, MayBeEnteredNowhere) {
    Waits::Waiting wait(nullptr, 1, Waits::Lane::direct);
    wait.go_on_for(2);
}

}  // namespace
