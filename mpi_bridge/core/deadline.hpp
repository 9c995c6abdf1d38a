// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace mpi_bridge {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Never runs out.
inline constexpr Seconds no_limit{std::numeric_limits<double>::infinity()};

// Returns the latest time_point there is where the sum would exceed it.
[[nodiscard]] inline Clock::time_point after(Clock::time_point from, Seconds time) {
    if (time >= Seconds(Clock::time_point::max() - from)) return Clock::time_point::max();
    return from + std::chrono::duration_cast<Clock::duration>(time);
}

// The point in time at which a wait gives up.
class Deadline {
  public:
    [[nodiscard]] static Deadline in(Seconds patience) {
        return Deadline(after(Clock::now(), patience));
    }
    [[nodiscard]] static Deadline at(Clock::time_point when) { return Deadline(when); }

    [[nodiscard]] bool passed() const { return Clock::now() >= when_; }

    // Milliseconds left for poll(2): at least 0 and at most `limit`.
    [[nodiscard]] int left_milliseconds(int limit) const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(when_ - Clock::now());
        return static_cast<int>(std::clamp<long long>(left.count(), 0, limit));
    }

    [[nodiscard]] Clock::time_point when() const { return when_; }

  private:
    explicit Deadline(Clock::time_point when) : when_(when) {}
    Clock::time_point when_;
};

}  // namespace mpi_bridge
