// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/settle.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include <unistd.h>

namespace mpi_bridge {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds settled_age{60};

// From field 22 of /proc/self/stat (proc(5)): clock ticks after boot.
std::optional<milliseconds> process_age() {
    std::ifstream file("/proc/self/stat");
    std::string text;
    std::getline(file, text);
    const auto name_end = text.rfind(')');  // the program's name may hold blanks
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(text.substr(name_end + 1));
    std::string skipped;
    for (int field = 3; field < 22; ++field)
        fields >> skipped;
    long long ticks = -1;
    fields >> ticks;
    timespec now{};
    if (!fields || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
    const auto started = ticks * 1000 / sysconf(_SC_CLK_TCK);
    return milliseconds(now.tv_sec * 1000LL + now.tv_nsec / 1000000 - started);
}

}  // namespace

void let_slurm_settle() {
    if (std::getenv("SLURM_STEP_ID") == nullptr) return;
    const auto age = process_age().value_or(milliseconds(0));
    if (age < settled_age) {
        std::this_thread::sleep_for(settled_age - std::max(age, milliseconds(0)));
    }
}

}  // namespace mpi_bridge
