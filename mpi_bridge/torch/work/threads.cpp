// SPDX-License-Identifier: Apache-2.0
#include "work/threads.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace mpi_bridge::torch {

namespace {

struct Running {
    std::mutex mutex;
    std::condition_variable changed;
    int count = 0;
};

// Never destroyed: a thread may outlive the wait for it.
Running& running() {
    static auto* const the_running = new Running;
    return *the_running;
}

}  // namespace

void start_thread(std::function<void()> run) {
    {
        const std::lock_guard lock(running().mutex);
        ++running().count;
    }
    std::thread([run = std::move(run)]() mutable {
        run();
        run = nullptr;  // what it holds may need Python
        const std::lock_guard lock(running().mutex);
        --running().count;
        running().changed.notify_all();
    }).detach();
}

bool await_threads(double seconds) {
    std::unique_lock lock(running().mutex);
    return running().changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                      [] { return running().count == 0; });
}

}  // namespace mpi_bridge::torch
