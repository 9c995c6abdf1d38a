// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ctime>

namespace mpi_bridge {

// Measures a time to within some milliseconds, at a quarter of what the steady clock costs. The
// error of a sum of many times is small, because each is as often too long as too short.
class CoarseClock {
  public:
    CoarseClock() : start_(now()) {}
    [[nodiscard]] std::chrono::nanoseconds elapsed() const { return now() - start_; }

  private:
    static std::chrono::nanoseconds now() {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }

    std::chrono::nanoseconds start_;
};

}  // namespace mpi_bridge
