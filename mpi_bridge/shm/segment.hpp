// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <sys/types.h>

#include "core/failure.hpp"
#include "core/file_descriptor.hpp"
#include "shm/memory_file.hpp"
#include "shm/nonce.hpp"

namespace mpi_bridge {

// Memory in which several processes of one user on one node work, mapped.
//
// It is a POSIX shared memory object, which also processes of different containers find if they
// share /dev/shm. Where that has too little room (docker and podman give a container 64 MiB), it is
// a memory file (shm/memory_file.hpp), which does not count against it.
//
// Attaching it by its ticket proves that two processes share memory, whatever their host names or
// containers. A name in /dev/shm exists only until unlink(), which the creator calls as soon as all
// ranks have attached, or at the latest in its destructor. If the creator dies first, other
// processes remove the name (shm/abandoned_segments.hpp). The memory stays until the last process
// has unmapped it. A process must have only one object of this class for each segment, because
// closing a second one would drop the locks of the first.
class Segment {
  public:
    // What other processes need in order to attach. Trivially copyable, so it can be sent as it is.
    struct Ticket {
        char name[64];          // in /dev/shm; "" for a memory file
        MemoryFilePlace place;  // of a memory file
        Nonce nonce;
        std::uint64_t bytes;
    };

    // Makes a new segment of `bytes` zero bytes, mode 0600. Its memory is not reserved yet.
    [[nodiscard]] static Outcome<std::unique_ptr<Segment>> create(std::uint64_t bytes);

    // Fails with MPIB_ERROR_INTERNAL where there is no such segment (another node, or another
    // /dev/shm) or where it is not the one that the ticket was made for.
    [[nodiscard]] static Outcome<std::unique_ptr<Segment>> attach(const Ticket& ticket);

    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    ~Segment();

    [[nodiscard]] const Ticket& ticket() const { return ticket_; }

    // The whole segment, from a page boundary; the first `header_bytes` belong to this class.
    // Memory must have been reserved by some process before it is accessed.
    [[nodiscard]] std::byte* memory() const { return memory_; }
    static constexpr std::size_t header_bytes = 128;

    // Backs a part of the segment with memory, taken from the calling process's NUMA node.
    [[nodiscard]] Done reserve(std::uint64_t offset, std::uint64_t bytes, std::string_view purpose);

    // A process shows that it is alive by a lock on its own byte of the file, which the kernel
    // releases when the process ends, however it ends. This is a classic record lock, because a
    // child made by fork() must not keep it. A process sees only the locks of other processes.
    [[nodiscard]] Done lock(int byte);
    [[nodiscard]] bool is_locked_by_another(int byte) const;

    // Removes the name. Idempotent; does nothing in a process that did not create the segment.
    void unlink();

  private:
    // Completes the ticket.
    [[nodiscard]] static Outcome<FileDescriptor> make_file(Ticket& ticket);
    [[nodiscard]] static Outcome<FileDescriptor> open_file(const Ticket& ticket);
    Segment(FileDescriptor file, std::byte* memory, const Ticket& ticket, pid_t creator)
        : file_(std::move(file)), memory_(memory), ticket_(ticket), creator_(creator) {}

    FileDescriptor file_;
    std::byte* memory_;
    Ticket ticket_;
    pid_t creator_;  // the process that has to unlink; 0 when there is nothing to unlink
};

}  // namespace mpi_bridge
