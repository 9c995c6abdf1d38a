// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "shm/heap.hpp"

namespace mpi_bridge {

// The shared heap of this process, which is made when it is first needed. Any thread may call any
// function, but the heap must no longer be in use when close() is called.
class OwnHeap {
  public:
    // Makes the heap unless it exists. If several threads call, one makes it and the others wait.
    [[nodiscard]] Outcome<SharedHeap*> open(std::uint64_t capacity = SharedHeap::default_capacity) {
        if (SharedHeap* there = get(); there != nullptr) return there;
        const std::lock_guard lock(mutex_);
        if (heap_ == nullptr) {
            auto made = TRY(SharedHeap::create(capacity));
            heap_ = std::move(made);
            made_.store(heap_.get(), std::memory_order_release);
        }
        return heap_.get();
    }

    // nullptr until the heap is made. Never waits.
    [[nodiscard]] SharedHeap* get() const { return made_.load(std::memory_order_acquire); }

    void close() {
        const std::lock_guard lock(mutex_);
        made_.store(nullptr, std::memory_order_release);
        heap_.reset();
    }

  private:
    std::mutex mutex_;
    std::unique_ptr<SharedHeap> heap_;
    std::atomic<SharedHeap*> made_{nullptr};
};

}  // namespace mpi_bridge
