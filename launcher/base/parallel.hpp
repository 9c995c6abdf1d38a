// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace batchai::base {

// Calls work(0) to work(count - 1), each once and in no particular order, on up to eight threads.
// Uses only the calling thread if there is little to do. `work` must not throw.
template <typename Work>
void in_parallel(std::size_t count, Work work) {
    constexpr std::size_t worth_a_thread = 256;
    const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
    const std::size_t helpers = std::min({processors, std::size_t{8}, count / worth_a_thread + 1});
    std::atomic<std::size_t> next = 0;
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++)
            work(i);
    };
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < helpers; ++i)
        threads.emplace_back(run);
    run();
}

}  // namespace batchai::base
