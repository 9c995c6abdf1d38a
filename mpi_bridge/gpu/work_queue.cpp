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
        auto noted = note(*start.stream());
        if (!noted) return pass_on(std::move(noted));
        points.push_back(*noted);
    }
    for (DeviceNote& each : start.notes())
        points.push_back({each.take()});
    return points;
}

Outcome<std::byte*> GrowingMemory::take(WorkQueue& queue, std::size_t bytes) {
    constexpr std::size_t least = std::size_t{1} << 20;
    if (blocks_.empty() || bytes > bytes_) {
        const std::size_t wanted = bytes <= least ? least : std::bit_ceil(bytes);
        auto memory =
            where_ == Where::tensors ? queue.tensor_memory(wanted) : queue.host_memory(wanted);
        if (!memory) return pass_on(std::move(memory));
        blocks_.push_back(std::move(*memory));
        bytes_ = wanted;
    }
    return blocks_.back().get();
}

}  // namespace mpi_bridge
