// SPDX-License-Identifier: Apache-2.0
#include "core/settle.hpp"

#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using mpi_bridge::find_task_start;
using mpi_bridge::settling_time;
using std::chrono::milliseconds;

struct FakeProcess {
    std::string name;
    int parent;
    long started_ms;
};
using FakeProcesses = std::map<int, FakeProcess>;

mpi_bridge::StatOfProcess stat_of(const FakeProcesses& processes) {
    return [&](int pid) -> std::optional<std::string> {
        const auto found = processes.find(pid);
        if (found == processes.end()) return std::nullopt;
        const auto& process = found->second;
        std::string text =
            std::to_string(pid) + " (" + process.name + ") S " + std::to_string(process.parent);
        for (int field = 5; field < 22; ++field)
            text += " 7";
        return text + ' ' + std::to_string(process.started_ms * sysconf(_SC_CLK_TCK) / 1000) +
               " 4096 0\n";
    };
}

TEST(Settle, WaitsUntilTheTaskIsOldEnoughForTheTimeOfItsLaunch) {
    EXPECT_EQ(settling_time({milliseconds(120), milliseconds(30)}, 2), milliseconds(210));
    EXPECT_EQ(settling_time({milliseconds(120), milliseconds(240)}, 2), milliseconds(0));
    EXPECT_EQ(settling_time({milliseconds(120), milliseconds(9000)}, 2), milliseconds(0));
    EXPECT_EQ(settling_time({milliseconds(120), milliseconds(30)}, 1.5), milliseconds(150));
    EXPECT_EQ(settling_time({milliseconds(120), milliseconds(180)}, 1.5), milliseconds(0));
}

TEST(Settle, WaitsALittleAfterTheFastestLaunchAndNeverForLong) {
    EXPECT_EQ(settling_time({milliseconds(0), milliseconds(0)}, 2), milliseconds(60));
    EXPECT_EQ(settling_time({milliseconds(-10), milliseconds(0)}, 2), milliseconds(60));
    EXPECT_EQ(settling_time({milliseconds(60000), milliseconds(0)}, 2), milliseconds(1000));
    // A clock that went back is no reason to wait longer.
    EXPECT_EQ(settling_time({milliseconds(60000), milliseconds(-5000)}, 1.5), milliseconds(1000));
}

TEST(Settle, FindsTheTaskThatAScriptsChildBelongsTo) {
    const FakeProcesses processes{{100, {"slurmd", 1, 1000}},
                                  {200, {"slurmstepd", 100, 5000}},
                                  {300, {"bash", 200, 5120}},
                                  {400, {"a ) (b", 300, 5200}}};
    const auto task = find_task_start(stat_of(processes), 400, milliseconds(5250));
    ASSERT_TRUE(task);
    EXPECT_EQ(task->launch, milliseconds(120));
    EXPECT_EQ(task->age, milliseconds(130));
}

// As in task_init: the task is still called slurmstepd.
TEST(Settle, TakesTheForkedDaemonForTheTask) {
    const FakeProcesses processes{{200, {"slurmstepd", 100, 5000}},
                                  {300, {"slurmstepd", 200, 5080}}};
    const auto task = find_task_start(stat_of(processes), 300, milliseconds(5100));
    ASSERT_TRUE(task);
    EXPECT_EQ(task->launch, milliseconds(80));
    EXPECT_EQ(task->age, milliseconds(20));
}

TEST(Settle, SeesNoTaskElsewhere) {
    const FakeProcesses processes{{1, {"init", 0, 0}}, {300, {"bash", 1, 5080}}};
    EXPECT_FALSE(find_task_start(stat_of(processes), 300, milliseconds(5100)));
    EXPECT_FALSE(find_task_start(stat_of(processes), 999, milliseconds(5100)));
    const FakeProcesses ring{{2, {"a", 3, 0}}, {3, {"b", 2, 0}}};
    EXPECT_FALSE(find_task_start(stat_of(ring), 2, milliseconds(5100)));
    const auto garbage = [](int) { return std::optional<std::string>("no such ( thing"); };
    EXPECT_FALSE(find_task_start(garbage, 2, milliseconds(5100)));
}

}  // namespace
