// SPDX-License-Identifier: Apache-2.0
// Prints the nanoseconds that a cache line takes from one processor to another, one way: two
// threads on the first two processors pass a counter to and fro. A virtual machine's processors may
// be neighbours at one time and far apart at another; results of different such times do not
// compare.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>

#include "processors.hpp"

namespace {

constexpr int windows = 8000;
constexpr int turns_in_a_window = 100;
// On a machine that others keep busy each turn may wait for the scheduler: fewer windows, then.
constexpr std::chrono::seconds longest{1};
constexpr int over = -1;

// Odd values are set by one thread, even ones by the other.
struct alignas(128) Ball {
    std::atomic<int> turn{0};
};

// False when the game is over.
bool wait_for(const Ball& ball, int turn) {
    // Yields now and then: with one busy processor a spinning thread would wait for itself.
    for (int spins = 1;; ++spins) {
        const int now = ball.turn.load(std::memory_order_acquire);
        if (now == turn || now == over) return now == turn;
        if (spins % 20000 == 0) std::this_thread::yield();
    }
}

double best_one_way_nanoseconds(unsigned one, unsigned other) {
    Ball ball;
    std::thread partner([&] {
        bench::stay_on(other);
        for (int turn = 0; wait_for(ball, 2 * turn + 1); ++turn)
            ball.turn.store(2 * turn + 2, std::memory_order_release);
    });
    bench::stay_on(one);
    // The best window: other work on the machine only ever adds to it.
    double best = 1e9;
    const auto end = std::chrono::steady_clock::now() + longest;
    for (int window = 0; window < windows; ++window) {
        const auto start = std::chrono::steady_clock::now();
        if (window > 0 && start > end) break;
        for (int i = 0; i < turns_in_a_window; ++i) {
            const int turn = window * turns_in_a_window + i;
            ball.turn.store(2 * turn + 1, std::memory_order_release);
            wait_for(ball, 2 * turn + 2);
        }
        const std::chrono::duration<double, std::nano> time =
            std::chrono::steady_clock::now() - start;
        best = std::min(best, time.count() / (2.0 * turns_in_a_window));
    }
    ball.turn.store(over, std::memory_order_release);
    partner.join();
    return best;
}

}  // namespace

int main() {
    try {
        const auto processors = bench::allowed_processors();
        if (processors.size() < 2) throw std::runtime_error("two processors are needed");
        std::printf("%.1f\n", best_one_way_nanoseconds(processors[0], processors[1]));
        return EXIT_SUCCESS;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pingpong: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
