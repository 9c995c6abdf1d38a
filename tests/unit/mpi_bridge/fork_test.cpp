// SPDX-License-Identifier: Apache-2.0
// A child made by fork() does its parent no harm and is told that the library does not work in it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"

namespace {

constexpr std::size_t bytes = 1UL << 20;

// The exit status of a child that runs `body`; a signal gives its number and 128. A child that
// waits for a lock which nobody will release is ended by SIGALRM.
int in_child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        std::_Exit(body());
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class ForkTest : public testing::Test {
  protected:
    void SetUp() override {
        setenv("MPI_BRIDGE_ALONE", "1", 1);
        ASSERT_EQ(mpib_init(), MPIB_OK) << mpib_last_error();
        memory_ = static_cast<unsigned char*>(mpib_alloc(bytes));
        ASSERT_NE(memory_, nullptr) << mpib_last_error();
        std::memset(memory_, 7, bytes);
    }
    void TearDown() override {
        mpib_free(memory_);
        EXPECT_EQ(mpib_finalize(), MPIB_OK);
    }
    [[nodiscard]] bool holds(unsigned char value) const {
        return std::all_of(memory_, memory_ + bytes, [=](auto byte) { return byte == value; });
    }

    unsigned char* memory_ = nullptr;
};

// Breaks when the child punches a hole into memory that the parent goes on using.
TEST_F(ForkTest, AChildFreesNothingOfItsParent) {
    EXPECT_EQ(in_child([&] {
                  mpib_free(memory_);
                  mpib_free(nullptr);
                  return 0;
              }),
              0);
    EXPECT_TRUE(holds(7));
    // The place is still taken here.
    void* const other = mpib_alloc(bytes);
    EXPECT_NE(other, memory_);
    mpib_free(other);
}

TEST_F(ForkTest, AChildReadsTheMemoryAndWritesToACopy) {
    EXPECT_EQ(in_child([&] {
                  if (!holds(7)) return 1;
                  std::memset(memory_, 9, bytes);
                  if (!holds(9)) return 2;
                  // A grandchild inherits the copy.
                  return in_child([&] {
                      const bool fine = holds(9);
                      mpib_free(memory_);
                      return fine ? 0 : 3;
                  });
              }),
              0);
    EXPECT_TRUE(holds(7));
}

TEST_F(ForkTest, EveryCallInAChildSaysThatTheLibraryDoesNotWorkThere) {
    const auto child = [&]() -> int {
        float value = 1;
        std::size_t count = 1;
        int number = 0;
        mpib_handle handle = 0;
        mpib_operation operation{};
        operation.struct_bytes = sizeof operation;
        mpib_result result{};
        result.struct_bytes = sizeof result;
        mpib_counters counters{};
        counters.struct_bytes = sizeof counters;
        const std::vector<mpib_status> statuses = {
            mpib_init(),
            mpib_init_with(nullptr),
            mpib_allreduce(&value, &value, 1, MPIB_FLOAT32, MPIB_SUM),
            mpib_broadcast(&value, 4, 0),
            mpib_allgather(&value, &value, 4),
            mpib_allgatherv(&value, 4, &value, &count, nullptr),
            mpib_reduce_scatter(&value, &value, &count, MPIB_FLOAT32, MPIB_SUM),
            mpib_alltoall(&value, &value, 4),
            mpib_alltoallv(&value, &count, nullptr, &value, &count, nullptr),
            mpib_barrier(),
            mpib_reduce(&value, &value, 1, MPIB_FLOAT32, MPIB_SUM, 0),
            mpib_set_timeout(1),
            mpib_submit(&operation, &handle),
            mpib_wait(1, 0),
            mpib_get_result(1, &result),
            mpib_release(1),
            mpib_call(&operation),
            mpib_join(&number),
            mpib_process_set_add(&number, 1, &number),
            mpib_process_set_remove(1),
            mpib_timeline_start("/dev/null"),
            mpib_timeline_stop(),
            mpib_read_counters(&counters),
        };
        for (std::size_t call = 0; call < statuses.size(); ++call) {
            if (statuses[call] != MPIB_ERROR_FORKED) return static_cast<int>(call) + 1;
        }
        if (mpib_alloc(1) != nullptr) return 50;
        if (std::string(mpib_last_error()).find("fork()") == std::string::npos) return 51;
        if (mpib_poll(1) != -1 || mpib_process_set_size(0) != -2) return 52;
        if (mpib_initialized() != 1 || mpib_rank() != 0 || mpib_size() != 1) return 53;
        if (std::string(mpib_status_name(MPIB_ERROR_FORKED)) != "MPIB_ERROR_FORKED") return 54;
        return mpib_finalize() == MPIB_OK ? 0 : 55;
    };
    EXPECT_EQ(in_child(child), 0);
    EXPECT_EQ(mpib_barrier(), MPIB_OK);
}

TEST_F(ForkTest, ExitHandlersAndAbortInAChildEndTheChildAlone) {
    EXPECT_EQ(in_child([]() -> int { std::exit(3); }), 3);
    EXPECT_EQ(in_child([]() -> int {
                  mpib_abort(4, "of a forked child");
                  return 0;
              }),
              4);
    EXPECT_TRUE(holds(7));
    EXPECT_EQ(mpib_barrier(), MPIB_OK);
}

TEST_F(ForkTest, AChildThatCallsExecIsNotAffected) {
    EXPECT_EQ(in_child([] {
                  execl("/bin/true", "true", nullptr);
                  return 1;
              }),
              0);
    EXPECT_TRUE(holds(7));
}

// Breaks when a call in the child waits for a mutex that another thread of the parent held at the
// moment of the fork.
TEST_F(ForkTest, ACallInAChildNeverWaitsForALockOfTheParent) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&] {
            while (!stop) {
                mpib_free(mpib_alloc(4096));
                (void)mpib_barrier();
            }
        });
    }
    int failures = 0;
    for (int round = 0; round < 100 && failures == 0; ++round) {
        failures += in_child([&] {
            mpib_free(memory_);
            return mpib_alloc(1) == nullptr && mpib_barrier() == MPIB_ERROR_FORKED &&
                           mpib_finalize() == MPIB_OK
                       ? 0
                       : 1;
        });
    }
    stop = true;
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0);
    EXPECT_TRUE(holds(7));
}

}  // namespace
