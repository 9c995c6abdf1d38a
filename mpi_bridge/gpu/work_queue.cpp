// SPDX-License-Identifier: Apache-2.0
#include "gpu/work_queue.hpp"

#include <bit>

namespace mpi_bridge {

void DeviceNote::give_back() {
    if (queue_ != nullptr) queue_->forget({event_});
    queue_ = nullptr;
    event_ = nullptr;
}

Outcome<std::vector<WorkQueue::Noted>> WorkQueue::take(const DeviceStart& start) {
    std::vector<Noted> points;
    if (start.stream() != nullptr) {
        points.push_back(TRY(note(*start.stream())));
    }
    for (DeviceNote& each : start.notes())
        points.push_back({each.take()});
    return points;
}

Done WorkQueue::after_all(std::span<const Noted> points) {
    Done done;
    for (const Noted& noted : points) {
        if (done) {
            done = after(noted);
        } else {
            forget(noted);
        }
    }
    return done;
}

Outcome<std::byte*> GrowingMemory::take(std::size_t bytes, const Allocate& allocate) {
    constexpr std::size_t least = std::size_t{1} << 20;
    if (blocks_.empty() || bytes > bytes_) {
        const std::size_t wanted = bytes <= least ? least : std::bit_ceil(bytes);
        blocks_.push_back(TRY(allocate(wanted)));
        bytes_ = wanted;
    }
    return blocks_.back().get();
}

void GrowingMemory::leave() {
    for (Memory& block : blocks_)
        static_cast<void>(block.release());
    blocks_.clear();
    bytes_ = 0;
}

}  // namespace mpi_bridge
