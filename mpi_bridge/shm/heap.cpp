// SPDX-License-Identifier: Apache-2.0
#include "shm/heap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/parts.hpp"
#include "shm/file_space.hpp"

namespace mpi_bridge {
namespace {

constexpr std::uint64_t least_capacity = 64UL << 20;
constexpr std::uint64_t huge_page = 2UL << 20;

std::uint64_t page_bytes() {
    static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

std::string label(const Nonce& nonce) {
    return "mpi_bridge.heap." + to_hex(nonce);
}

void* map_file(int file, std::uint64_t bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) return nullptr;
    // Both calls are advice only. Without the first, a core file would hold every rank's heap.
    // Without the second, each small page would cost a table walk even where the administrator
    // allows large pages.
    ::madvise(memory, bytes, MADV_DONTDUMP);
    ::madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

}  // namespace

Outcome<std::unique_ptr<SharedHeap>> SharedHeap::create(std::uint64_t capacity) {
    auto nonce = TRY(draw_nonce());
    FileDescriptor file(::memfd_create(label(nonce).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) {
        return fail(MPIB_ERROR_INTERNAL, fmt::format("shared heap: cannot create a memory file: {}",
                                                     std::strerror(errno)));
    }
    capacity = std::min(capacity, longest_file()) / huge_page * huge_page;
    for (; capacity >= least_capacity; capacity = capacity / 2 / huge_page * huge_page) {
        if (::ftruncate(file.number(), static_cast<off_t>(capacity)) != 0) continue;
        if (void* base = map_file(file.number(), capacity); base != nullptr) {
            // After this no process can shorten the file, so those that map it can rely on its
            // size.
            ::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
            return std::unique_ptr<SharedHeap>(
                new SharedHeap(std::move(file), static_cast<std::byte*>(base), capacity, nonce));
        }
    }
    return fail(MPIB_ERROR_INTERNAL,
                fmt::format("shared heap: no {} bytes of address space: {}; the limits of file "
                            "size (ulimit -f) and of address space (ulimit -v) must allow them",
                            least_capacity, std::strerror(errno)));
}

SharedHeap::SharedHeap(FileDescriptor file, std::byte* base, std::uint64_t capacity,
                       const Nonce& nonce)
    : file_(std::move(file)),
      base_(base),
      capacity_(capacity),
      nonce_(nonce),
      private_in_children_(base, capacity, file_.number()) {
    free_.emplace(0, capacity);
}

SharedHeap::~SharedHeap() {
    ::munmap(base_, capacity_);
}

Outcome<void*> SharedHeap::allocate(std::size_t bytes) {
    if (generation_ != fork_generation()) {
        return fail(MPIB_ERROR_FORKED,
                    "shared heap: it belongs to the process that this one was forked from");
    }
    if (bytes > capacity_) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared heap: {} bytes are more than the {} bytes that the heap "
                                "can hold",
                                bytes, capacity_));
    }
    const std::uint64_t length = round_up(std::max<std::size_t>(bytes, 1), page_bytes());
    const std::uint64_t alignment = length >= huge_page ? huge_page : page_bytes();
    std::uint64_t offset = 0;
    {
        const std::lock_guard lock(mutex_);
        // First fit is good enough, because allocations are few, large and long-lived.
        const auto place = std::find_if(free_.begin(), free_.end(), [&](const auto& candidate) {
            const std::uint64_t gap = round_up(candidate.first, alignment) - candidate.first;
            return candidate.second >= gap && candidate.second - gap >= length;
        });
        if (place == free_.end()) {
            return fail(MPIB_ERROR_INTERNAL,
                        fmt::format("shared heap: no {} bytes left of {}", bytes, capacity_));
        }
        const auto [start, room] = *place;
        offset = round_up(start, alignment);
        free_.erase(place);
        if (offset > start) free_.emplace(start, offset - start);
        if (offset + length < start + room) {
            free_.emplace(offset + length, start + room - offset - length);
        }
        live_.emplace(offset, length);
    }
    auto reserved = reserve_space(file_.number(), offset, length, "the shared heap");
    if (!reserved) free(base_ + offset);
    TRY(std::move(reserved));
    return base_ + offset;
}

bool SharedHeap::free(void* memory) {
    if (memory == nullptr || generation_ != fork_generation()) return true;
    const auto offset = find(memory, 0);
    if (!offset) return false;
    const std::lock_guard lock(mutex_);
    const auto place = live_.find(*offset);
    if (place == live_.end()) return false;
    // This happens under the lock, so that the range is not allocated again before its old pages
    // are gone.
    ::fallocate(file_.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(place->first), static_cast<off_t>(place->second));
    give_back(place->first, place->second);
    live_.erase(place);
    return true;
}

void SharedHeap::give_back(std::uint64_t offset, std::uint64_t bytes) {
    const auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
        bytes += next->second;
        free_.erase(next);
    }
    const auto after = free_.lower_bound(offset);
    if (after != free_.begin()) {
        const auto previous = std::prev(after);
        if (previous->first + previous->second == offset) {
            previous->second += bytes;
            return;
        }
    }
    free_.emplace(offset, bytes);
}

SharedHeap::Ticket SharedHeap::ticket() const {
    return {nonce_, ::getpid(), file_.number(), capacity_};
}

Outcome<PeerHeap> PeerHeap::map(const SharedHeap::Ticket& ticket) {
    const auto path = fmt::format("/proc/{}/fd/{}", ticket.process, ticket.file);
    const auto expected = fmt::format("/memfd:{} (deleted)", label(ticket.nonce));
    const auto refuse = [&](std::string_view why) {
        return fail(
            MPIB_ERROR_INTERNAL,
            fmt::format("shared heap: cannot map the heap of process {}: {}", ticket.process, why));
    };
    // The link is checked before the file is opened, because opening some other file could have
    // side effects.
    char target[128];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return refuse(std::strerror(errno));
    if (std::string_view(target, static_cast<std::size_t>(length)) != expected) {
        return refuse("its process number means another process here");
    }
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) return refuse(std::strerror(errno));
    void* base = map_file(file.number(), ticket.bytes);
    if (base == nullptr) return refuse(std::strerror(errno));
    return PeerHeap(static_cast<std::byte*>(base), ticket.bytes);
}

PeerHeap::PeerHeap(PeerHeap&& other) noexcept
    : base_(other.base_), bytes_(other.bytes_), mapped_(std::exchange(other.mapped_, false)) {}

PeerHeap::~PeerHeap() {
    if (mapped_) ::munmap(base_, bytes_);
}

}  // namespace mpi_bridge
