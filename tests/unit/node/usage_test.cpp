// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "node/usage/cgroup.hpp"
#include "node/usage/network.hpp"
#include "node/usage/processes.hpp"
#include "node/usage/sampler.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::node {
namespace {

using std::chrono::seconds;

void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
}

// A /proc whose processes belong to the user who runs the test.
class FakeProc {
  public:
    struct Process {
        int parent = 1;
        int user = 0;  // ticks
        int of_children = 0;
        int pages = 0;
        int start = 100;
        std::string environment{};
        int read = 0;
    };

    void put(int number, const Process& process) const {
        const auto directory = scratch_.path() / std::to_string(number);
        write(directory / "stat",
              fmt::format("{} (a) b ({}) S {} 1 1 0 -1 0 0 0 0 0 {} 0 {} 0 20 0 3 0 {} 1000 {} 0\n",
                          number, number, process.parent, process.user, process.of_children,
                          process.start, process.pages));
        write(directory / "environ", process.environment);
        write(directory / "io",
              fmt::format("rchar: 7\nread_bytes: {}\nwrite_bytes: 2\n", process.read));
        write(directory / "status", "Name:\tx\nVmHWM:\t    8000 kB\n");
    }
    void remove(int number) const {
        std::filesystem::remove_all(scratch_.path() / std::to_string(number));
    }
    [[nodiscard]] StepProcesses step(const std::string& node = {}) const {
        return StepProcesses(
            base::FileDescriptor(open(scratch_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
            {.job_id = "12", .step_id = "3", .node = node, .slurmstepd = 10, .anchor = 11});
    }
    [[nodiscard]] static std::string rank(int number, const std::string& step = "3") {
        using namespace std::string_literals;
        return "A=b\0SLURM_JOB_ID=12\0SLURM_STEP_ID="s + step + "\0SLURM_PROCID="s +
               std::to_string(number) + "\0"s;
    }

  private:
    Scratch scratch_;
};

const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));

TEST(StepProcesses, TellsRanksApart) {
    const FakeProc proc;
    proc.put(11, {.parent = 10, .user = 1000, .environment = FakeProc::rank(9)});  // the anchor
    proc.put(20, {.parent = 10, .user = 50, .pages = 10, .environment = FakeProc::rank(4)});
    proc.put(21, {.parent = 10, .user = 70, .pages = 20, .environment = FakeProc::rank(5)});
    // A child whose number is less than its parent's, and its child.
    proc.put(19, {.parent = 15, .user = 3, .pages = 1});
    proc.put(15, {.parent = 21, .user = 2, .pages = 1});
    // A process that has left its parent, and processes of other steps and jobs.
    proc.put(30, {.parent = 1, .user = 4, .pages = 1, .environment = FakeProc::rank(4)});
    proc.put(31, {.parent = 1, .user = 400, .environment = FakeProc::rank(4, "2")});
    proc.put(32, {.parent = 1, .user = 400});
    auto step = proc.step();
    step.look();
    ASSERT_EQ(step.ranks().size(), 2U);
    EXPECT_NEAR(step.ranks().at(4).cpu_seconds, 54 * tick, 1e-9);
    EXPECT_NEAR(step.ranks().at(5).cpu_seconds, 75 * tick, 1e-9);
    EXPECT_EQ(step.ranks().at(5).memory, 22 * sysconf(_SC_PAGESIZE));
    EXPECT_EQ(step.ranks().at(5).threads, 9);
    EXPECT_EQ(step.ranks().at(5).written, 6);
    EXPECT_EQ(step.ranks().at(4).peak, 8000 * 1024);
    EXPECT_EQ(step.first_task(), 20);
    EXPECT_EQ(variable_in(step.environment(), "SLURM_PROCID"), "4");
}

// Breaks when the use of a rank counts on each node of its host.
TEST(StepProcesses, AreThoseOfTheNodeOnAHostWithSeveral) {
    using namespace std::string_literals;
    const FakeProc proc;
    proc.put(20, {.parent = 10, .environment = FakeProc::rank(0) + "SLURMD_NODENAME=n1\0"s});
    proc.put(21, {.parent = 1, .environment = FakeProc::rank(0) + "SLURMD_NODENAME=n1\0"s});
    proc.put(30, {.parent = 12, .environment = FakeProc::rank(1) + "SLURMD_NODENAME=n2\0"s});
    auto step = proc.step("n1");
    step.look();
    EXPECT_THAT(step.processes_of_ranks(),
                testing::UnorderedElementsAre(std::pair(0, 20), std::pair(0, 21)));
}

TEST(StepProcesses, LosesNothingOfEndedProcesses) {
    const FakeProc proc;
    proc.put(20, {.parent = 10, .user = 50, .environment = FakeProc::rank(0)});
    proc.put(21, {.parent = 20, .user = 10, .read = 100});
    proc.put(22, {.parent = 1, .user = 5, .environment = FakeProc::rank(0)});
    auto step = proc.step();
    step.look();
    EXPECT_NEAR(step.ranks().at(0).cpu_seconds, 65 * tick, 1e-9);
    // The task has waited for its child, and nobody for the other one.
    proc.remove(21);
    proc.remove(22);
    proc.put(20, {.parent = 10,
                  .user = 51,
                  .of_children = 12,
                  .environment = FakeProc::rank(0),
                  .read = 100});
    step.look();
    EXPECT_NEAR(step.ranks().at(0).cpu_seconds, 68 * tick, 1e-9);
    EXPECT_EQ(step.ranks().at(0).read, 100);
    // Another process gets the number of an ended one.
    proc.put(22, {.parent = 1, .user = 900, .start = 500});
    proc.remove(20);
    step.look();
    EXPECT_NEAR(step.ranks().at(0).cpu_seconds, 68 * tick, 1e-9);
    EXPECT_EQ(step.ranks().at(0).memory, 0);
    EXPECT_EQ(step.ranks().at(0).threads, 0);
}

TEST(StepProcesses, FindsATaskThatStartsLate) {
    const FakeProc proc;
    proc.put(10, {.of_children = 30});
    proc.put(20, {.parent = 10, .user = 1});  // it has not started its program
    auto step = proc.step();
    step.look();
    EXPECT_TRUE(step.ranks().empty());
    EXPECT_TRUE(step.environment().empty());
    proc.put(20, {.parent = 10, .user = 1, .environment = FakeProc::rank(2)});
    step.look();
    EXPECT_EQ(step.ranks().count(2), 1U);
    EXPECT_NEAR(step.cpu_seconds_of_ended_tasks(), 30 * tick, 1e-9);
}

TEST(StepCgroup, ReadsVersionTwo) {
    const Scratch mount;
    const auto step = mount.path() / "system.slice/slurmstepd.scope/job_12/step_0/user";
    write(step / "cpu.stat", "usage_usec 2500000\nuser_usec 1\n");
    write(step / "memory.current", "1000000\n");
    write(step / "memory.stat", "anon 1\ninactive_file 300000\nactive_file 200000\n");
    write(step / "memory.max", "max\n");
    const auto cgroup = StepCgroup::find(
        "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n", "12", mount.path());
    const CgroupUse use = cgroup.read();
    EXPECT_EQ(use.cpu_seconds, 2.5);
    EXPECT_EQ(use.memory, 500000);
    EXPECT_FALSE(use.limit);
    EXPECT_FALSE(use.ran_out);
    write(step.parent_path() / "memory.max", "4194304\n");
    write(step / "memory.events", "low 0\nmax 7\noom 1\noom_kill 1\n");
    EXPECT_EQ(cgroup.read().limit, 4194304);
    EXPECT_TRUE(cgroup.read().ran_out);
}

// As Slurm 26.05 calls the cgroups of jobs.
TEST(StepCgroup, ReadsTheOneOfAJobThatIsCalledByItsSluid) {
    const Scratch mount;
    const std::string job = "system.slice/slurmstepd.scope/s7XKQ2M04WG000";
    write(mount.path() / job / "step_0/user/cpu.stat", "usage_usec 2500000\n");
    write(mount.path() / job / "step_0/user/memory.current", "1000000\n");
    const auto cgroup =
        StepCgroup::find("0::/" + job + "/step_0/user/task_0\n", "12", mount.path());
    EXPECT_EQ(cgroup.read().cpu_seconds, 2.5);
    EXPECT_EQ(cgroup.read().memory, 1000000);
}

TEST(StepCgroup, ReadsVersionOne) {
    const Scratch mount;
    const std::string path = "slurm/uid_1001/job_12/step_0";
    write(mount.path() / "memory" / path / "memory.usage_in_bytes", "1000000\n");
    write(mount.path() / "memory" / path / "memory.stat",
          "inactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 200000\n");
    write(mount.path() / "memory" / path / "memory.limit_in_bytes", "4194304\n");
    write(mount.path() / "cpuacct" / path / "cpuacct.usage", "1500000000\n");
    const auto cgroup = StepCgroup::find(
        "4:memory:/slurm/uid_1001/job_12/step_0/task_0\n"
        "3:cpu,cpuacct:/slurm/uid_1001/job_12/step_0/task_0\n1:name=systemd:/\n",
        "12", mount.path());
    const CgroupUse use = cgroup.read();
    EXPECT_EQ(use.cpu_seconds, 1.5);
    EXPECT_EQ(use.memory, 500000);
    EXPECT_EQ(use.limit, 4194304);
    const char* const nobody = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
    write(mount.path() / "memory" / path / "memory.oom_control", nobody);
    write(mount.path() / "memory" / path / "task_0/memory.oom_control", nobody);
    EXPECT_FALSE(cgroup.read().ran_out);
    write(mount.path() / "memory" / path / "task_1/memory.oom_control",
          "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    EXPECT_TRUE(cgroup.read().ran_out);
}

TEST(StepCgroup, IsNoneWithoutSlurmsOwn) {
    const Scratch mount;
    write(mount.path() / "memory/job_13/step_0/memory.usage_in_bytes", "1\n");
    write(mount.path() / "memory/memory.usage_in_bytes", "1\n");
    for (const char* const text :
         {"", "4:memory:/\n", "4:memory:/job_13/step_0\n", "4:memory:/job_12/../job_13/step_0\n",
          "4:memory:/job_12/step_0/../../memory\n", "nonsense", "0::/user.slice\n", "0::/step_0\n",
          "0::/slurm/step_0\n", "0::/s7XKQ2M04wg000/step_0\n"}) {
        const CgroupUse use = StepCgroup::find(text, "12", mount.path()).read();
        EXPECT_FALSE(use.cpu_seconds || use.memory || use.limit) << text;
    }
}

constexpr std::string_view net_dev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
    "    lo: 1000 1 0 0 0 0 0 0 1000 1 0 0 0 0 0 0\n"
    "  eth0: 1500 10 0 0 0 0 0 0 900 8 0 0 0 0 0 0\n"
    "veth7f:  500 10 0 0 0 0 0 0 100 8 0 0 0 0 0 0\n";

TEST(NetworkCounters, CountDevicesAndNotWhatIsMadeOnThem) {
    const Scratch system;
    std::filesystem::create_directories(system.path() / "class/net/eth0/device");
    const NetworkCounters counters(net_dev, system.path());
    EXPECT_EQ(counters.read(net_dev), (NetworkTotals{1500, 900}));
    write(system.path() / "class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "100\n");
    write(system.path() / "class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "25\n");
    EXPECT_EQ(NetworkCounters(net_dev, system.path()).read(net_dev), (NetworkTotals{1900, 1000}));
}

TEST(NetworkCounters, CountAllInterfacesOfAContainer) {
    const Scratch system;
    const NetworkCounters counters(net_dev, system.path());
    EXPECT_EQ(counters.read(net_dev), (NetworkTotals{2000, 1000}));
    EXPECT_EQ(counters.read(""), NetworkTotals{});
}

TEST(UsageInterval, IsANumberOfSeconds) {
    EXPECT_EQ(*usage_interval(""), seconds(10));
    EXPECT_EQ(*usage_interval("0"), seconds(0));
    EXPECT_EQ(*usage_interval("60"), seconds(60));
    for (const char* const text : {"-1", "1.5", "3601", "ten", " 5"})
        EXPECT_FALSE(usage_interval(text)) << text;
}

TEST(SamplePace, BeginsQuicklyAndBecomesSlower) {
    SamplePace pace(seconds(10));
    std::vector<long> times;
    while (times.size() < 8) {
        times.push_back(pace.next().count());
        pace.taken(pace.next());
    }
    EXPECT_EQ(times, (std::vector<long>{0, 1, 2, 4, 8, 16, 26, 36}));
    int count = 8;
    for (; pace.next() < std::chrono::hours(7 * 24); ++count)
        pace.taken(pace.next());
    EXPECT_LT(count, 6500);
    EXPECT_GT(count, 4000);
    // The process was stopped for an hour.
    const seconds late = pace.next() + std::chrono::hours(1);
    pace.taken(late);
    EXPECT_GT(pace.next(), late);
}

}  // namespace
}  // namespace batchai::node
