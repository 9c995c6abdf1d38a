// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace bench {

// Nanoseconds since 1970: the hosts of the test cluster are one machine, so their clocks agree.
inline std::int64_t now() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

// Every rank's line: when its main() began, when it was initialised, and when its first barrier was
// over. In one write, as the ranks share the pipe.
inline void report(std::int64_t started, std::int64_t initialised, std::int64_t together) {
    std::printf("wireup %lld %lld %lld\n", static_cast<long long>(started),
                static_cast<long long>(initialised), static_cast<long long>(together));
    std::fflush(stdout);
}

}  // namespace bench
