// SPDX-License-Identifier: Apache-2.0
// The C API in a process that nobody launched: rank 0 of 1.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"

namespace {

class AloneTest : public testing::Test {
  protected:
    void SetUp() override {
        setenv("MPI_BRIDGE_ALONE", "1", 1);
        ASSERT_EQ(mpib_init(), MPIB_OK) << mpib_last_error();
    }
    void TearDown() override { EXPECT_EQ(mpib_finalize(), MPIB_OK); }
};

TEST(NotInitialised, CallsAreRefusedAndQueriesSayMinusOne) {
    ASSERT_EQ(mpib_initialized(), 0);
    EXPECT_EQ(mpib_rank(), -1);
    EXPECT_EQ(mpib_cross_size(), -1);
    EXPECT_EQ(mpib_barrier(), MPIB_ERROR_NOT_INITIALIZED);
    EXPECT_NE(std::string(mpib_last_error()).find("mpib_init"), std::string::npos);
}

TEST_F(AloneTest, IsRankZeroOfOneAndInitialisesTwice) {
    EXPECT_EQ(mpib_init(), MPIB_OK);
    EXPECT_EQ(mpib_rank(), 0);
    EXPECT_EQ(mpib_size(), 1);
    EXPECT_EQ(mpib_local_size(), 1);
    EXPECT_EQ(mpib_is_homogeneous(), 1);
}

// The threads of this process.
std::set<std::string> threads() {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
        found.insert(each.path().filename());
    return found;
}

std::uint64_t blocked_signals(const std::string& thread) {
    std::ifstream status("/proc/self/task/" + thread + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
    }
    ADD_FAILURE() << "no SigBlk of thread " << thread;
    return 0;
}

// Breaks when a handler of the program may run on a thread of the engine.
TEST_F(AloneTest, TheThreadsOfTheEngineTakeNoSignalsOfTheProgram) {
    const auto before = threads();
    for (int step = 0; step < 10; ++step) {
        float value = 1;
        const std::int64_t rows = 1;
        mpib_operation operation{};
        operation.struct_bytes = sizeof operation;
        operation.kind = MPIB_ALLREDUCE;
        operation.name = "x";
        operation.send = operation.recv = &value;
        operation.shape = &rows;
        operation.dimensions = 1;
        operation.datatype = MPIB_FLOAT32;
        operation.op = MPIB_SUM;
        ASSERT_EQ(mpib_call(&operation), MPIB_OK) << mpib_last_error();
    }
    mpib_counters counters{};
    counters.struct_bytes = sizeof counters;
    ASSERT_EQ(mpib_read_counters(&counters), MPIB_OK);
    EXPECT_GT(counters.plans_made, 0U);
    std::size_t made = 0;
    for (const std::string& thread : threads()) {
        if (before.contains(thread)) continue;
        ++made;
        for (const int signal : {SIGALRM, SIGPROF, SIGUSR1, SIGTERM, SIGCHLD})
            EXPECT_TRUE(blocked_signals(thread) >> (signal - 1) & 1) << signal;
    }
    // ThreadSanitizer may have begun one of its own meanwhile.
    EXPECT_GE(made, 2U) << "the negotiation's and the plan's";
}

// Breaks when the join itself depends on the place for its result.
TEST_F(AloneTest, AJoinNeedsNoPlaceForTheLastRank) {
    mpib_counters before{};
    mpib_counters after{};
    before.struct_bytes = after.struct_bytes = sizeof before;
    ASSERT_EQ(mpib_read_counters(&before), MPIB_OK);
    ASSERT_EQ(mpib_join(nullptr), MPIB_OK) << mpib_last_error();
    int last = -1;
    ASSERT_EQ(mpib_join(&last), MPIB_OK) << mpib_last_error();
    EXPECT_EQ(last, 0);
    ASSERT_EQ(mpib_read_counters(&after), MPIB_OK);
    EXPECT_EQ(after.operations[MPIB_JOIN], before.operations[MPIB_JOIN] + 2);
}

TEST_F(AloneTest, CollectivesCopyTheOwnPart) {
    const std::array<float, 3> send = {1, -2, 3};
    std::array<float, 3> recv = {9, 9, 9};
    const std::size_t count = send.size();
    const std::size_t bytes = sizeof send;
    ASSERT_EQ(mpib_allreduce(send.data(), recv.data(), count, MPIB_FLOAT32, MPIB_AVERAGE), MPIB_OK);
    EXPECT_EQ(recv, send);
    recv.fill(9);
    ASSERT_EQ(mpib_reduce_scatter(send.data(), recv.data(), &count, MPIB_FLOAT32, MPIB_SUM),
              MPIB_OK);
    EXPECT_EQ(recv, send);
    recv.fill(9);
    ASSERT_EQ(mpib_allgather(send.data(), recv.data(), bytes), MPIB_OK);
    EXPECT_EQ(recv, send);
    recv.fill(9);
    ASSERT_EQ(mpib_alltoall(send.data(), recv.data(), bytes), MPIB_OK);
    EXPECT_EQ(recv, send);
    EXPECT_EQ(mpib_broadcast(recv.data(), bytes, 0), MPIB_OK);
    EXPECT_EQ(mpib_barrier(), MPIB_OK);
    EXPECT_EQ(mpib_allreduce(nullptr, nullptr, 0, MPIB_INT8, MPIB_SUM), MPIB_OK);
}

// Breaks when a call uses an engine that mpib_finalize() has destroyed meanwhile.
TEST(Finalize, MayBeCalledWhileOtherThreadsCallIn) {
    setenv("MPI_BRIDGE_ALONE", "1", 1);
    std::atomic<bool> over{false};
    std::atomic<int> done{0};
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&, number] {
            const std::string name = "x" + std::to_string(number);
            const float send = 3;
            float recv = 0;
            mpib_operation operation{};
            operation.struct_bytes = sizeof operation;
            operation.kind = MPIB_ALLREDUCE;
            operation.name = name.c_str();
            operation.datatype = MPIB_FLOAT32;
            operation.send = &send;
            operation.recv = &recv;
            while (!over) {
                mpib_handle handle = 0;
                if (mpib_submit(&operation, &handle) != MPIB_OK) {
                    ++refused;
                    continue;
                }
                (void)mpib_poll(handle);
                const mpib_status status = mpib_wait(handle, 0);
                status == MPIB_OK ? ++done : ++refused;
                (void)mpib_release(handle);
            }
        });
    }
    for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(mpib_init(), MPIB_OK) << mpib_last_error();
        const int before = done;
        for (int look = 0; look < 2000 && done < before + 100; ++look)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(mpib_finalize(), MPIB_OK);
    }
    over = true;
    for (auto& thread : threads)
        thread.join();
    EXPECT_GT(done, 1000);
    EXPECT_GT(refused, 0);
}

TEST_F(AloneTest, WrongArgumentsAreRefusedAndBreakNothing) {
    std::array<float, 4> data{};
    EXPECT_EQ(mpib_allreduce(data.data(), nullptr, 4, MPIB_FLOAT32, MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_allreduce(data.data(), data.data() + 1, 3, MPIB_FLOAT32, MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_allreduce(data.data(), data.data(), std::numeric_limits<size_t>::max(),
                             MPIB_FLOAT32, MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_allreduce(data.data(), data.data(), 4, static_cast<mpib_datatype>(9), MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_broadcast(data.data(), 4, 1), MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_set_timeout(0), MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_barrier(), MPIB_OK);
}

TEST_F(AloneTest, OverlappingBuffersAreRefused) {
    std::array<float, 8> data{};
    const std::size_t four = 4;
    const std::size_t bytes = 16;
    const std::size_t within = 4;
    EXPECT_EQ(mpib_allreduce(data.data(), data.data() + 3, four, MPIB_FLOAT32, MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_reduce(data.data(), data.data() + 3, four, MPIB_FLOAT32, MPIB_SUM, 0),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_allgather(data.data(), data.data() + 1, bytes), MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_allgatherv(data.data(), bytes, data.data(), &bytes, &within),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_reduce_scatter(data.data(), data.data(), &four, MPIB_FLOAT32, MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_alltoall(data.data(), data.data(), bytes), MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_alltoallv(data.data(), &bytes, nullptr, data.data() + 3, &bytes, nullptr),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_alltoallv(data.data(), &bytes, nullptr, data.data() + 3, &bytes, &within),
              MPIB_OK);
}

TEST_F(AloneTest, LengthsThatAreLongerThanMemoryAreRefused) {
    std::array<float, 4> data{};
    const std::size_t huge = std::numeric_limits<std::size_t>::max();
    EXPECT_EQ(mpib_reduce_scatter(data.data(), nullptr, &huge, MPIB_FLOAT32, MPIB_SUM),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mpib_barrier(), MPIB_OK);
}

TEST_F(AloneTest, BuffersNeedNoAlignmentAndNothingMayBeNull) {
    std::array<unsigned char, 13> send{};
    std::array<unsigned char, 13> recv{};
    send.fill(1);
    ASSERT_EQ(mpib_allreduce(send.data() + 1, recv.data() + 1, 3, MPIB_FLOAT32, MPIB_SUM), MPIB_OK);
    EXPECT_TRUE(std::equal(send.begin() + 1, send.end(), recv.begin() + 1));
    const std::size_t none = 0;
    EXPECT_EQ(mpib_reduce(nullptr, nullptr, 0, MPIB_FLOAT32, MPIB_SUM, 0), MPIB_OK);
    EXPECT_EQ(mpib_broadcast(nullptr, 0, 0), MPIB_OK);
    EXPECT_EQ(mpib_allgather(nullptr, nullptr, 0), MPIB_OK);
    EXPECT_EQ(mpib_allgatherv(nullptr, 0, nullptr, &none, nullptr), MPIB_OK);
    EXPECT_EQ(mpib_reduce_scatter(nullptr, nullptr, &none, MPIB_FLOAT32, MPIB_SUM), MPIB_OK);
    EXPECT_EQ(mpib_alltoall(nullptr, nullptr, 0), MPIB_OK);
    EXPECT_EQ(mpib_alltoallv(nullptr, &none, nullptr, nullptr, &none, nullptr), MPIB_OK);
}

}  // namespace
