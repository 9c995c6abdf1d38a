// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <cstring>
#include <iterator>

#include <sys/mman.h>

#include "plan.hpp"

namespace standin {
namespace {

constexpr std::uint64_t range_bytes = std::uint64_t{1} << 37;
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t alignment = 256;  // of an allocation, as CUDA promises
constexpr int fresh = 0xA5;
constexpr int slack = 0x5C;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

std::uint64_t address_space() {
    void* range =
        mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) misuse("no address space is left for the devices' memory");
    return reinterpret_cast<std::uint64_t>(range);
}

void map_at(std::uint64_t at, std::size_t bytes, int protection) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (mmap(reinterpret_cast<void*>(at), bytes, protection,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        misuse("a device's memory cannot be mapped");
    }
}

std::byte* pointer(std::uint64_t address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<std::byte*>(address);
}

}  // namespace

Memory& Memory::get() {
    static auto& memory = *new Memory;
    return memory;
}

Memory::Memory() : range_(address_space()), bytes_(address_space()) {}

template <typename Blocks>
auto Memory::block_at(Blocks& blocks, std::uint64_t address) -> decltype(&*blocks.begin()) {
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return nullptr;
    const auto found = std::prev(after);
    return address - found->first < std::max<std::size_t>(found->second.bytes, 1) ? &*found
                                                                                  : nullptr;
}

std::uint64_t Memory::reserve(std::size_t bytes, int device, bool in_order) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0 || bytes > range_bytes) return 0;
    Block block;
    block.bytes = bytes;
    block.page_bytes = rounded_up(bytes, page);
    block.device = device;
    block.in_order = in_order;
    if (next_ + block.page_bytes + page > range_bytes) return 0;
    block.pages = next_;
    next_ += block.page_bytes + page;
    const std::uint64_t address =
        range_ + block.pages + block.page_bytes - rounded_up(bytes, alignment);
    blocks_.emplace(address, block);
    return address;
}

bool Memory::is_in_order(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    return found != blocks_.end() && found->second.in_order;
}

void Memory::open(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(address);
    map_at(bytes_ + block.pages, block.page_bytes, PROT_READ | PROT_WRITE);
    std::byte* const content = pointer(address - range_ + bytes_);
    std::memset(content, fresh, block.bytes);
    std::memset(content + block.bytes, slack, rounded_up(block.bytes, alignment) - block.bytes);
    block.is_open = true;
}

void Memory::close(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(address);
    const std::byte* const end = pointer(address - range_ + bytes_) + block.bytes;
    for (std::uint64_t at = 0; at < rounded_up(block.bytes, alignment) - block.bytes; ++at) {
        if (end[at] != std::byte{slack}) misuse("device memory was written beyond its end");
    }
    map_at(bytes_ + block.pages, block.page_bytes, PROT_NONE);
    block.is_open = false;
}

bool Memory::give_back(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end() || found->second.given_back) return false;
    found->second.given_back = true;
    return true;
}

long Memory::blocks() {
    const std::lock_guard lock(mutex_);
    long count = static_cast<long>(pinned_.size());
    for (const auto& [address, block] : blocks_)
        count += block.given_back ? 0 : 1;
    return count;
}

void* Memory::pin(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    Block block;
    block.bytes = bytes;
    block.page_bytes = rounded_up(bytes, page);
    void* memory =
        mmap(nullptr, block.page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    std::memset(memory, fresh, bytes);
    const std::lock_guard lock(mutex_);
    pinned_.emplace(reinterpret_cast<std::uint64_t>(memory), block);
    return memory;
}

bool Memory::unpin(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = pinned_.find(reinterpret_cast<std::uint64_t>(memory));
    if (found == pinned_.end()) return false;
    munmap(memory, found->second.page_bytes);
    pinned_.erase(found);
    return true;
}

Memory::Place Memory::place_of(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    if (const auto* block = block_at(blocks_, address)) {
        return {Kind::device, block->second.given_back ? -1 : block->second.device};
    }
    if (block_at(pinned_, address) != nullptr) return {Kind::pinned, -1};
    return {};
}

std::byte* Memory::reach(std::uint64_t address, std::size_t bytes, int device) {
    if (bytes == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto* block = block_at(blocks_, address);
    if (block != nullptr) {
        const std::size_t left = block->second.bytes - (address - block->first);
        if (block->second.is_open && block->second.device == device && bytes <= left) {
            return pointer(address - range_ + bytes_);
        }
        throw IllegalAddress();
    }
    block = block_at(pinned_, address);
    if (block == nullptr || bytes > block->second.bytes - (address - block->first)) {
        throw IllegalAddress();
    }
    return pointer(address);
}

}  // namespace standin
