// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/device_executor.hpp"

#include <utility>

#include "mpi_bridge_engine.h"

namespace mpi_bridge {

DeviceExecutor::Turn::Turn(Turn&& other) noexcept
    : executor_(std::exchange(other.executor_, nullptr)), process_set_(other.process_set_) {}

DeviceExecutor::Turn::~Turn() {
    if (executor_ != nullptr) executor_->finish(process_set_);
}

Outcome<DeviceExecutor::Turn> DeviceExecutor::take_turn(int process_set, const Largest& largest,
                                                        const Watch& watch) {
    if (process_set == MPIB_WORLD && !several_sets_) return Turn();
    const TotalOrder::Time own = propose(process_set);
    Turn turn(*this, process_set);
    const auto agreed = TRY(largest(own));
    TRY(await_turn(process_set, agreed, watch));
    return turn;
}

TotalOrder::Time DeviceExecutor::propose(int process_set) {
    const std::lock_guard lock(mutex_);
    return order_.propose(process_set);
}

Done DeviceExecutor::await_turn(int process_set, TotalOrder::Time agreed, const Watch& watch) {
    std::unique_lock lock(mutex_);
    order_.agreed(process_set, agreed);
    // An operation of another set may now be known to come first.
    changed_.notify_all();
    const auto over = [&] { return failure_ || order_.is_next(process_set); };
    while (!changed_.wait_for(lock, between_looks, over)) {
        // What the set has in flight may be what the operations before this one wait for.
        lock.unlock();
        TRY(watch());
        lock.lock();
    }
    if (failure_) return tl::unexpected(*failure_);
    return {};
}

void DeviceExecutor::finish(int process_set) {
    const std::lock_guard lock(mutex_);
    order_.finish(process_set);
    changed_.notify_all();
}

Done DeviceExecutor::follow_others(DeviceGroup& group, int device,
                                   std::vector<DeviceNote>& notes) const {
    const auto latest = latest_.find(device);
    if (latest == latest_.end() || latest->second == &group) return {};
    notes.push_back(TRY(group.note(*latest->second->stream())));
    return {};
}

void DeviceExecutor::enqueued(DeviceGroup& group, int device) {
    if (group.stream()) latest_[device] = &group;
}

void DeviceExecutor::abandon(const Failure& cause) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = cause;
    changed_.notify_all();
}

}  // namespace mpi_bridge
