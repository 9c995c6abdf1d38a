// SPDX-License-Identifier: Apache-2.0
#include "shm/heap.hpp"

#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/fork_guard.hpp"
#include "ranks.hpp"
#include "shm/own_heap.hpp"

namespace {

using mpi_bridge::PeerHeap;
using mpi_bridge::SharedHeap;
using mpi_bridge_test::in_child;
using testing::HasSubstr;

constexpr std::uint64_t capacity = 64UL << 20;

std::unique_ptr<SharedHeap> make() {
    auto heap = SharedHeap::create(capacity);
    EXPECT_TRUE(heap) << heap.error().text;
    return std::move(*heap);
}

TEST(SharedHeap, IsReadAndWrittenByOtherProcesses) {
    const auto heap = make();
    auto* const data = static_cast<char*>(heap->allocate(100).value());
    std::strcpy(data, "from the owner");
    const auto ticket = heap->ticket();
    const auto offset = heap->find(data, 100).value();
    const auto answer = in_child([&]() -> std::string {
        auto peer = PeerHeap::map(ticket);
        if (!peer) return peer.error().text;
        auto* const seen = reinterpret_cast<char*>(peer->at(offset));
        if (std::strcmp(seen, "from the owner") != 0) return "sees something else";
        std::strcpy(seen, "from the peer");
        return {};
    });
    EXPECT_EQ(answer, "");
    EXPECT_STREQ(data, "from the peer");
}

// Breaks when a forked child frees what its parent goes on using, or writes into it.
TEST(SharedHeap, BelongsToTheProcessThatMadeIt) {
    const auto owner = []() -> std::string {
        if (auto guarded = mpi_bridge::guard_forks(); !guarded) return guarded.error().text;
        const auto heap = make();
        auto* const data = static_cast<char*>(heap->allocate(5000).value());
        std::strcpy(data, "of the owner");
        const auto answer = in_child([&]() -> std::string {
            if (std::strcmp(data, "of the owner") != 0) return "the child sees something else";
            std::strcpy(data, "of the child");
            if (!heap->free(data)) return "the child is told that the pointer is wrong";
            const auto more = heap->allocate(1);
            if (more || more.error().status != MPIB_ERROR_FORKED) return "the child allocates";
            // Its own heap works.
            const auto own = make();
            return own->free(own->allocate(1).value()) ? "" : "the child cannot free its own";
        });
        if (!answer.empty()) return answer;
        return std::strcmp(data, "of the owner") == 0 ? "" : std::string("changed to ") + data;
    };
    EXPECT_EQ(in_child(owner), "");
}

TEST(SharedHeap, IsNotTakenForAnother) {
    const auto heap = make();
    auto ticket = heap->ticket();
    ticket.nonce[0] ^= 1U;
    EXPECT_THAT(PeerHeap::map(ticket).error().text, HasSubstr("another process"));
    ticket = heap->ticket();
    ticket.place.process = 1 << 23;  // beyond the largest process number
    EXPECT_THAT(PeerHeap::map(ticket).error().text, HasSubstr("cannot map the heap"));
}

// The number of lines of /proc/self/maps that name a heap.
std::size_t mapped_heaps() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        if (line.find("mpi_bridge.heap") != std::string::npos) ++count;
    return count;
}

// Breaks when each group of ranks takes 64 GiB of addresses for each of its members.
TEST(PeerHeap, IsMappedOnceForAllGroups) {
    const auto heap = make();
    const auto ticket = heap->ticket();
    const auto answer = in_child([&]() -> std::string {
        const std::size_t before = mapped_heaps();
        {
            const auto first = PeerHeap::map(ticket);
            const auto second = PeerHeap::map(ticket);
            if (!first || !second) return "cannot be mapped";
            if (first->at(0) != second->at(0)) return "is at two addresses";
            if (mapped_heaps() != before + 1) return "is mapped twice";
        }
        return mapped_heaps() == before ? "" : "stays mapped";
    });
    EXPECT_EQ(answer, "");
}

TEST(SharedHeap, FindsWhatItHoldsAndNothingElse) {
    const auto heap = make();
    auto* const data = static_cast<std::byte*>(heap->allocate(8192).value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 4096, 0U);
    EXPECT_TRUE(heap->find(data, 8192));
    EXPECT_EQ(heap->find(data + 5, 1).value(), heap->find(data, 1).value() + 5);
    int elsewhere = 0;
    EXPECT_FALSE(heap->find(&elsewhere, sizeof elsewhere));
    EXPECT_FALSE(heap->find(nullptr, 0));
    EXPECT_FALSE(heap->find(heap->base() - 1, 2));
    EXPECT_FALSE(heap->find(heap->base() + capacity - 1, 2));
    EXPECT_FALSE(heap->find(data, capacity + 1));
}

TEST(SharedHeap, UsesFreedMemoryAgain) {
    const auto heap = make();
    // More than fits at once, in pieces that must be joined again.
    std::mt19937_64 random(1);
    std::vector<std::pair<char*, std::size_t>> live;
    for (int i = 0; i < 100; ++i) {
        const std::size_t bytes = 1 + random() % (2UL << 20);
        auto memory = heap->allocate(bytes);
        while (!memory || live.size() > 20) {
            ASSERT_FALSE(live.empty()) << memory.error().text;
            const std::size_t victim = random() % live.size();
            const auto [data, length] = live[victim];
            EXPECT_EQ(data[0], data[length - 1]);
            EXPECT_TRUE(heap->free(data));
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
            if (!memory) memory = heap->allocate(bytes);
        }
        auto* const data = static_cast<char*>(*memory);
        EXPECT_EQ(data[0], 0) << "freed memory was given back to the system";
        data[0] = data[bytes - 1] = static_cast<char>(i);
        live.emplace_back(data, bytes);
    }
    for (const auto& [data, length] : live)
        EXPECT_TRUE(heap->free(data));
    EXPECT_TRUE(heap->allocate(capacity)) << "all parts were joined again";
}

TEST(SharedHeap, RefusesWhatItDidNotHandOut) {
    const auto heap = make();
    auto* const data = static_cast<std::byte*>(heap->allocate(100).value());
    int elsewhere = 0;
    EXPECT_FALSE(heap->free(&elsewhere));
    EXPECT_FALSE(heap->free(data + 1));
    EXPECT_TRUE(heap->free(data));
    EXPECT_FALSE(heap->free(data));
    EXPECT_TRUE(heap->free(nullptr));
}

TEST(SharedHeap, FailsWhenFull) {
    const auto heap = make();
    EXPECT_EQ(heap->allocate(capacity + 1).error().status, MPIB_ERROR_INTERNAL);
    EXPECT_TRUE(heap->allocate(capacity / 2));
    EXPECT_THAT(heap->allocate(capacity / 2 + 1).error().text, HasSubstr("left"));
    EXPECT_TRUE(heap->allocate(0));
}

TEST(SharedHeap, ServesSeveralThreads) {
    const auto heap = make();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (int i = 0; i < 200; ++i) {
                auto* const data = static_cast<char*>(heap->allocate(10000).value());
                std::memset(data, thread, 10000);
                for (int at = 0; at < 10000; at += 999)
                    EXPECT_EQ(data[at], thread);
                EXPECT_TRUE(heap->free(data));
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
}

TEST(SharedHeap, TakesLessAddressSpaceWhereLimitsAsk) {
    const auto answer = in_child([]() -> std::string {
        const rlimit limit{1UL << 30, 1UL << 30};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const auto heap = SharedHeap::create();
        if (!heap) return heap.error().text;
        if ((*heap)->capacity() > limit.rlim_cur) return "is too large";
        const auto memory = (*heap)->allocate(1UL << 20);
        return memory ? "" : memory.error().text;
    });
    EXPECT_EQ(answer, "");
    const auto refused = in_child([]() -> std::string {
        const rlimit limit{1UL << 20, 1UL << 20};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const auto heap = SharedHeap::create();
        return heap ? "was made" : heap.error().text;
    });
    EXPECT_THAT(refused, HasSubstr("ulimit"));
}

// Breaks when two threads make a heap each: memory of one would be freed in the other.
TEST(OwnHeap, IsMadeOnceForAllThreads) {
    for (int round = 0; round < 20; ++round) {
        mpi_bridge::OwnHeap heap;
        EXPECT_EQ(heap.get(), nullptr);
        std::vector<SharedHeap*> seen(8, nullptr);
        std::vector<std::thread> threads;
        for (auto& place : seen) {
            threads.emplace_back([&heap, &place] {
                const auto opened = heap.open(capacity);
                if (opened && heap.get() == *opened) place = *opened;
            });
        }
        for (auto& thread : threads)
            thread.join();
        EXPECT_NE(seen[0], nullptr);
        EXPECT_THAT(seen, testing::Each(seen[0]));
        heap.close();
        EXPECT_EQ(heap.get(), nullptr);
    }
}

}  // namespace
