// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "core/failure.hpp"
#include "core/file_descriptor.hpp"
#include "core/fork_guard.hpp"
#include "shm/memory_file.hpp"
#include "shm/nonce.hpp"

namespace mpi_bridge {

// Memory of this process that other processes of its node can map: collectives of the other ranks
// can read and write what is allocated here without a copy.
//
// The heap is one sparse memory file (shm/memory_file.hpp) that takes address space but no memory
// until something is allocated.
//
// A child made by fork() has a private copy of the memory and cannot allocate or free any, because
// the heap's contents are managed by the parent. This requires that guard_forks() was called.
//
// Any thread may call any function. The heap must outlive the use of its allocations. Peers that
// have mapped it keep the memory until they unmap it.
class SharedHeap {
  public:
    // What other processes need in order to map the heap. Trivially copyable, so it can be sent as
    // it is.
    struct Ticket {
        Nonce nonce;
        MemoryFilePlace place;
        std::uint64_t bytes;
    };

    static constexpr std::uint64_t default_capacity = 64UL << 30;

    // Takes less address space than `capacity` where the process's limits require it, down to 64
    // MiB. Fails with MPIB_ERROR_INTERNAL if not even that much is available.
    [[nodiscard]] static Outcome<std::unique_ptr<SharedHeap>> create(
        std::uint64_t capacity = default_capacity);

    SharedHeap(const SharedHeap&) = delete;
    SharedHeap& operator=(const SharedHeap&) = delete;
    ~SharedHeap();

    // Allocates at least `bytes` zero bytes that start at a page boundary and are backed by memory.
    // A lack of memory is MPIB_ERROR_INTERNAL. The caller frees the memory, or the heap's
    // destructor does.
    [[nodiscard]] Outcome<void*> allocate(std::size_t bytes);

    // Gives the memory back to the system. Returns false and changes nothing for an address that
    // allocate() did not return. nullptr is allowed. Does nothing in a forked child.
    bool free(void* memory);

    // The offset of [memory, memory + bytes) in the file, if all of it is in the heap. Takes no
    // lock.
    [[nodiscard]] std::optional<std::uint64_t> find(const void* memory, std::size_t bytes) const {
        const auto at = reinterpret_cast<std::uintptr_t>(memory);
        const auto first = reinterpret_cast<std::uintptr_t>(base_);
        if (at < first || at - first > capacity_ || bytes > capacity_ - (at - first)) return {};
        return at - first;
    }

    [[nodiscard]] Ticket ticket() const;
    [[nodiscard]] std::byte* base() const { return base_; }
    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }

  private:
    SharedHeap(FileDescriptor file, std::byte* base, std::uint64_t capacity, const Nonce& nonce);

    using Places = std::map<std::uint64_t, std::uint64_t>;  // offset to length, in bytes
    void give_back(std::uint64_t offset, std::uint64_t bytes);

    FileDescriptor file_;
    std::byte* base_;
    std::uint64_t capacity_;
    Nonce nonce_;
    PrivateInChildren private_in_children_;
    unsigned generation_ = fork_generation();  // differs in a child that inherited the heap
    std::mutex mutex_;                         // never locked in such a child: it may be held there
    Places free_;
    Places live_;
};

// Another process's heap, or this one's own, as seen from here. A process maps each heap once,
// however many objects refer to it: a heap takes as much address space as it can hold, and a
// process may have many groups of ranks. Any thread may call any function.
class PeerHeap {
  public:
    // Fails as open_memory_file() does, and where there is no address space left.
    [[nodiscard]] static Outcome<PeerHeap> map(const SharedHeap::Ticket& ticket);

    // Refers to a heap that is mapped already and stays mapped for longer than this object lives.
    explicit PeerHeap(const SharedHeap& own) : base_(own.base()) {}

    [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }

  private:
    struct Mapping;
    explicit PeerHeap(std::shared_ptr<const Mapping> mapping);

    std::byte* base_;
    std::shared_ptr<const Mapping> mapping_;  // nullptr for this process's own heap
};

}  // namespace mpi_bridge
