// SPDX-License-Identifier: Apache-2.0
#include "transport/wait/spin_policy.hpp"

#include <array>
#include <charconv>
#include <string_view>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace mpi_bridge {
namespace {

// The limit for the time without a processor between two calls of learn(). It is above what
// interrupts and the kernel's own threads take.
constexpr std::chrono::microseconds wanted_by_others{50};

}  // namespace

std::optional<std::chrono::nanoseconds> time_without_processor() {
    // Opened each time, because the file belongs to the thread that opened it.
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    std::array<char, 128> buffer{};
    const auto length = read(file, buffer.data(), buffer.size());
    close(file);
    if (length <= 0) return std::nullopt;
    // The fields are nanoseconds on a processor, nanoseconds waiting for one, and number of time
    // slices.
    const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
    const auto space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const std::string_view waited = text.substr(space + 1);
    std::int64_t nanoseconds = 0;
    const auto parsed = std::from_chars(waited.data(), waited.data() + waited.size(), nanoseconds);
    if (parsed.ec != std::errc()) return std::nullopt;
    return std::chrono::nanoseconds(nanoseconds);
}

bool may_be_crowded(int local_size) {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (sched_getaffinity(0, sizeof usable, &usable) != 0) return true;
    const bool is_bound = CPU_COUNT(&usable) < sysconf(_SC_NPROCESSORS_ONLN);
    return !is_bound && local_size > CPU_COUNT(&usable);
}

void SpinPolicy::learn() {
    if (--waits_left_ > 0) return;
    const auto now = time_without_processor();
    if (now && before_ && *now - *before_ > wanted_by_others) {
        short_waits_left_ = waits_per_trial;
        waits_left_ = 1;  // ask right after the trial
        before_.reset();
        return;
    }
    before_ = now;
    waits_left_ = waits_per_lesson;
}

}  // namespace mpi_bridge
