// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace mpi_bridge {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Host memory that is kept from call to call, because fresh memory costs more than the work that is
// done in it. It grows and never shrinks. Only one thread at a time may use it.
class Scratch {
  public:
    using Allocate = std::function<Bytes(std::size_t)>;
    using Free = std::function<void(Bytes)>;

    Scratch() = default;
    // Takes the memory from an allocator, which returns an empty span if it has no more. Ordinary
    // memory is used then.
    Scratch(Allocate allocate, Free free)
        : allocate_(std::move(allocate)), free_(std::move(free)) {}
    ~Scratch() { give_back(); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    // Returns at least `bytes` bytes, aligned for every datatype, with undefined contents, and
    // invalidates what was returned before.
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
        if (allocate_) memory_ = allocate_(wanted);
        allocated_ = allocate_ && memory_.size() >= bytes;
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
