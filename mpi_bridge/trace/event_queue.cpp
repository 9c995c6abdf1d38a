// SPDX-License-Identifier: Apache-2.0
#include "trace/event_queue.hpp"

#include <algorithm>
#include <utility>

namespace mpi_bridge {

void EventQueue::open(std::size_t capacity) {
    auto first = std::make_unique_for_overwrite<std::byte[]>(capacity);
    auto second = std::make_unique_for_overwrite<std::byte[]>(capacity);
    const std::lock_guard lock(mutex_);
    filling_ = {std::move(first), 0};
    taken_ = {std::move(second), 0};
    capacity_ = capacity;
    dropped_ = 0;
    open_ = true;
}

void EventQueue::close() {
    {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }
    wake_.notify_one();
}

void EventQueue::release() {
    const std::lock_guard lock(mutex_);
    filling_ = {};
    taken_ = {};
    capacity_ = 0;
}

void EventQueue::push(Event event) noexcept {
    event.text = event.text.substr(0, longest_text);
    const std::size_t bytes = sizeof event + event.text.size();
    bool half_full = false;
    {
        const std::lock_guard lock(mutex_);
        if (!open_) return;
        if (bytes > capacity_ - filling_.used) {
            ++dropped_;
            return;
        }
        // The time is taken under the lock, so that the order in the buffer is the order in time.
        if (event.type != EventType::device) event.time = Clock::now();
        std::byte* to = filling_.memory.get() + filling_.used;
        std::memcpy(to, &event, sizeof event);
        // An empty view may point nowhere.
        if (!event.text.empty()) {
            std::memcpy(to + sizeof event, event.text.data(), event.text.size());
        }
        const std::size_t half = capacity_ / 2;
        half_full = filling_.used < half && filling_.used + bytes >= half;
        filling_.used += bytes;
    }
    if (half_full) wake_.notify_one();
}

EventQueue::Taken EventQueue::take(Clock::time_point latest) {
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, latest, [this] { return !open_ || filling_.used >= capacity_ / 2; });
    std::swap(filling_, taken_);
    filling_.used = 0;
    return Taken{{taken_.memory.get(), taken_.used}, std::exchange(dropped_, 0), !open_};
}

}  // namespace mpi_bridge
