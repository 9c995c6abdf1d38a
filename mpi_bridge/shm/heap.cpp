// SPDX-License-Identifier: Apache-2.0
#include "shm/heap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/parts.hpp"
#include "shm/file_space.hpp"
#include "shm/memory_file.hpp"

namespace mpi_bridge {
namespace {

constexpr std::string_view heap_kind = "heap";
constexpr std::uint64_t least_capacity = 64UL << 20;
constexpr std::uint64_t huge_page = 2UL << 20;

std::uint64_t page_bytes() {
    static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
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
    auto file = TRY(make_memory_file(heap_kind, nonce));
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
    auto reserved = reserve_space(file_.number(), offset, length, "the shared heap",
                                  "give the job more memory");
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
    return {nonce_, {::getpid(), file_.number()}, capacity_};
}

// Unmaps another process's heap when nobody uses it any more.
struct PeerHeap::Mapping {
    std::byte* start;
    std::uint64_t length;

    Mapping(std::byte* base, std::uint64_t bytes) : start(base), length(bytes) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { ::munmap(start, length); }
};

Outcome<PeerHeap> PeerHeap::map(const SharedHeap::Ticket& ticket) {
    static std::mutex mutex;
    static std::map<Nonce, std::weak_ptr<const Mapping>> mappings;
    const std::lock_guard lock(mutex);
    std::erase_if(mappings, [](const auto& each) { return each.second.expired(); });
    if (const auto there = mappings.find(ticket.nonce); there != mappings.end()) {
        if (auto mapping = there->second.lock()) return PeerHeap(std::move(mapping));
    }
    const auto file = TRY(open_memory_file(heap_kind, ticket.nonce, ticket.place));
    void* base = map_file(file.number(), ticket.bytes);
    if (base == nullptr) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared heap: cannot map the heap of process {}: {}",
                                ticket.place.process, std::strerror(errno)));
    }
    auto mapping = std::make_shared<const Mapping>(static_cast<std::byte*>(base), ticket.bytes);
    mappings.emplace(ticket.nonce, mapping);
    return PeerHeap(std::move(mapping));
}

PeerHeap::PeerHeap(std::shared_ptr<const Mapping> mapping)
    : base_(mapping->start), mapping_(std::move(mapping)) {}

}  // namespace mpi_bridge
