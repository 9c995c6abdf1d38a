// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/settle.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace batchai::spank {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds least{60};
constexpr milliseconds most{1000};
constexpr milliseconds where_nothing_is_seen{200};

// Returns when the process was started, in milliseconds after boot.
std::optional<milliseconds> start_of(const std::string& process) {
    const int file = open(("/proc/" + process + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    std::array<char, 1024> text{};
    const ssize_t count = read(file, text.data(), text.size());
    close(file);
    if (count <= 0) return std::nullopt;
    const auto ticks = start_ticks({text.data(), static_cast<std::size_t>(count)});
    if (!ticks) return std::nullopt;
    return milliseconds(*ticks * 1000 / sysconf(_SC_CLK_TCK));
}

milliseconds since_boot() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return milliseconds(now.tv_sec * 1000LL + now.tv_nsec / 1000000);
}

void wait_for(milliseconds time) {
    const timespec pause{time.count() / 1000, time.count() % 1000 * 1000000};
    nanosleep(&pause, nullptr);
}

}  // namespace

std::optional<long long> start_ticks(std::string_view stat) {
    // Field 2, the program's name, may contain blanks and parentheses.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string_view::npos) return std::nullopt;
    std::string_view rest = stat.substr(name_end + 1);
    for (int field = 2; field < 22; ++field) {
        const std::size_t blank = rest.find(' ');
        if (blank == std::string_view::npos) return std::nullopt;
        rest.remove_prefix(blank + 1);
    }
    long long ticks = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
    if (error != std::errc() || end == rest.data()) return std::nullopt;
    return ticks;
}

milliseconds settling_time(milliseconds launch, milliseconds age) {
    return std::clamp(std::clamp(launch + launch / 2, least, most) - age, milliseconds(0), most);
}

void let_slurm_settle() {
    const auto task = start_of("self");
    const auto slurmstepd = start_of(std::to_string(getppid()));
    wait_for(task && slurmstepd ? settling_time(*task - *slurmstepd, since_boot() - *task)
                                : where_nothing_is_seen);
}

}  // namespace batchai::spank
