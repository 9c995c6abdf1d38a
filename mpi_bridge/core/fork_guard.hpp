// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "core/failure.hpp"

// Keeps a child made by fork() from harming its parent.
//
// A child inherits the parent's descriptors and shared mappings. A socket that it holds keeps the
// connection open after the parent has died, so that no peer notices; what it writes to a shared
// mapping appears in the parent. It also inherits mutexes as they were at the moment of the fork,
// perhaps held by threads that the child does not have.
//
// Handlers of pthread_atfork() deal with the descriptors and the mappings. They run in the child
// before fork() returns and do nothing but system calls. Closing a descriptor in the child does not
// affect the parent's epoll registrations, because those belong to the open file description, which
// the parent still has. EPOLL_CTL_DEL would remove them, so the child must never call it. The
// mutexes are dealt with by asking in_forked_child() before any lock is taken.
//
// A child that calls exec is unaffected: all descriptors of the library are close-on-exec anyway.
// posix_spawn() and vfork() do not run the handlers and need none.
namespace mpi_bridge {

// Installs the handlers. Idempotent; any thread may call it. Without it the rest of this file has
// no effect.
[[nodiscard]] Done guard_forks();

namespace fork_guard {
inline std::atomic<unsigned> generation{0};
}

// How many forks lie between the process that called guard_forks() and this one. An object that
// stores the number at its creation can tell later whether it was inherited, at the cost of one
// load.
[[nodiscard]] inline unsigned fork_generation() noexcept {
    return fork_guard::generation.load(std::memory_order_relaxed);
}

[[nodiscard]] inline bool in_forked_child() noexcept {
    return fork_generation() != 0;
}

// Marks a descriptor to be closed in forked children. Takes no lock.
void close_in_children(int descriptor) noexcept;

// Closes such a descriptor. Does nothing in a child, where it is closed already and its number may
// belong to another file by now.
void close_unless_inherited(int descriptor) noexcept;

// While this object lives, forked children get a private mapping in place of the shared mapping
// [memory, memory + bytes) of the file, at the same address: the child may read and write it like
// any memory it inherited, and the parent does not see what it writes. Where the system has no room
// for a private mapping, the child can only read.
class PrivateInChildren {
  public:
    PrivateInChildren(void* memory, std::size_t bytes, int file);
    PrivateInChildren(const PrivateInChildren&) = delete;
    PrivateInChildren& operator=(const PrivateInChildren&) = delete;
    ~PrivateInChildren();

  private:
    friend class ForkHandlers;
    void* memory_;
    std::size_t bytes_;
    int file_;
    unsigned generation_ = fork_generation();
    PrivateInChildren* previous_ = nullptr;
    PrivateInChildren* next_ = nullptr;
};

}  // namespace mpi_bridge
