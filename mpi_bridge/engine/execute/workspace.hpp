// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "collectives/conversation.hpp"

namespace mpi_bridge {

// The memory in which one lane packs its buckets. It is kept from bucket to bucket, because fresh
// memory costs more than the work that is done in it. It grows and never shrinks. Only one thread
// at a time may use it.
class Workspace {
  public:
    using Allocate = std::function<Bytes(std::size_t)>;
    using Free = std::function<void(Bytes)>;

    Workspace(Allocate allocate, Free free)
        : allocate_(std::move(allocate)), free_(std::move(free)) {}
    ~Workspace() { give_back(); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    // Returns at least this many bytes with undefined contents, and invalidates what was returned
    // before. If the allocator has no more memory, ordinary memory is used.
    [[nodiscard]] Bytes take(std::size_t bytes) {
        if (memory_.size() < bytes) grow(bytes);
        return memory_.first(bytes);
    }

    // Frees the memory.
    void give_back() {
        if (allocated_) free_(memory_);
        allocated_ = false;
        memory_ = {};
        ordinary_ = {};
    }

  private:
    void grow(std::size_t bytes) {
        // The size at least doubles, so that buckets of growing size do not each cost an
        // allocation.
        const std::size_t wanted = bytes < 2 * memory_.size() ? 2 * memory_.size() : bytes;
        give_back();
        memory_ = allocate_(wanted);
        allocated_ = memory_.size() >= bytes;
        if (allocated_) return;
        ordinary_.resize(wanted);
        memory_ = ordinary_;
    }

    Allocate allocate_;
    Free free_;
    Bytes memory_;
    bool allocated_ = false;
    std::vector<std::byte> ordinary_;
};

}  // namespace mpi_bridge
