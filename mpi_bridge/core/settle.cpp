// SPDX-License-Identifier: Apache-2.0
#include "core/settle.hpp"

#include <algorithm>
#include <ctime>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include "core/process_stat.hpp"

namespace mpi_bridge {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds least{60};
constexpr milliseconds unseen{200};
constexpr milliseconds most{1000};
constexpr int deepest = 64;  // generations between a rank and slurmstepd

struct Process {
    std::string name;
    int parent = 0;
    milliseconds started{};  // after boot
};

std::optional<Process> parse(const std::string& text) {
    const auto stat = parse_process_stat(text);
    if (!stat) return std::nullopt;
    const auto ticks = static_cast<long long>(stat->start);
    return Process{.name = stat->name,
                   .parent = stat->parent,
                   .started = milliseconds(ticks * 1000 / sysconf(_SC_CLK_TCK))};
}

std::optional<std::string> read_stat(int pid) {
    return read_process_stat(std::to_string(pid));
}

milliseconds since_boot() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return milliseconds(now.tv_sec * 1000LL + now.tv_nsec / 1000000);
}

std::optional<Process> look(const StatOfProcess& stat_of, int pid) {
    const auto text = pid > 0 ? stat_of(pid) : std::nullopt;
    return text ? parse(*text) : std::nullopt;
}

}  // namespace

milliseconds settling_time(const TaskStart& start, double launches) {
    const auto age = std::chrono::duration_cast<milliseconds>(launches * start.launch);
    return std::clamp(std::clamp(age, least, most) - start.age, milliseconds(0), most);
}

std::optional<TaskStart> find_task_start(const StatOfProcess& stat_of, int pid, milliseconds now) {
    auto process = look(stat_of, pid);
    for (int generation = 0; process && generation < deepest; ++generation) {
        auto parent = look(stat_of, process->parent);
        if (parent && parent->name == "slurmstepd")
            return TaskStart{process->started - parent->started, now - process->started};
        process = std::move(parent);
    }
    return std::nullopt;
}

void let_slurm_settle(double launches) {
    const auto now = since_boot();
    if (const auto task = find_task_start(read_stat, getpid(), now)) {
        std::this_thread::sleep_for(settling_time(*task, launches));
        return;
    }
    const auto self = look(read_stat, getpid());
    const auto age = self ? now - self->started : milliseconds(0);
    if (age < unseen) std::this_thread::sleep_for(std::min(unseen - age, unseen));
}

}  // namespace mpi_bridge
