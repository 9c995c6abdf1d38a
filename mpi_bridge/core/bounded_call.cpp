// SPDX-License-Identifier: Apache-2.0
#include "core/bounded_call.hpp"

#include <condition_variable>
#include <mutex>

#include "core/quiet_thread.hpp"

namespace mpi_bridge {
namespace {

struct Ending {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
};

}  // namespace

bool run_within(Deadline deadline, std::function<void()> work) {
    const auto ending = std::make_shared<Ending>();
    start_quiet_thread([ending, work = std::move(work)]() mutable {
        work();
        work = nullptr;  // frees what it owns before the caller goes on
        const std::lock_guard lock(ending->mutex);
        ending->reached = true;
        ending->changed.notify_one();
    }).detach();
    std::unique_lock lock(ending->mutex);
    return ending->changed.wait_until(lock, deadline.when(), [&] { return ending->reached; });
}

}  // namespace mpi_bridge
