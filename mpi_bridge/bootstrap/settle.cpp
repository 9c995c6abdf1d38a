// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/settle.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <unistd.h>

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

// Fields 2, 4 and 22 of /proc/PID/stat (proc(5)).
std::optional<Process> parse(const std::string& text) {
    const auto begin = text.find('(');
    const auto end = text.rfind(')');  // the program's name may hold blanks and parentheses
    if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
    Process out;
    out.name = text.substr(begin + 1, end - begin - 1);
    std::istringstream fields(text.substr(end + 1));
    std::string skipped;
    fields >> skipped >> out.parent;
    for (int field = 5; field < 22; ++field)
        fields >> skipped;
    long long ticks = 0;
    fields >> ticks;
    if (!fields) return std::nullopt;
    out.started = milliseconds(ticks * 1000 / sysconf(_SC_CLK_TCK));
    return out;
}

std::optional<std::string> read_stat(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.empty() ? std::nullopt : std::optional(std::move(text));
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

milliseconds settling_time(const TaskStart& start) {
    return std::clamp(std::clamp(2 * start.launch, least, most) - start.age, milliseconds(0), most);
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

void let_slurm_settle() {
    const auto now = since_boot();
    if (const auto task = find_task_start(read_stat, getpid(), now)) {
        std::this_thread::sleep_for(settling_time(*task));
        return;
    }
    const auto self = look(read_stat, getpid());
    const auto age = self ? now - self->started : milliseconds(0);
    if (age < unseen) std::this_thread::sleep_for(std::min(unseen - age, unseen));
}

}  // namespace mpi_bridge
