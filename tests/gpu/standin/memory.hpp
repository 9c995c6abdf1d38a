// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace standin {

// Thrown on a stream's thread by work that reaches beyond its memory.
struct IllegalAddress {};

// The memory of all devices, and the pinned memory of the host.
//
// A device's address is in a range that is never accessible, so a host that touches it faults. The
// bytes are elsewhere, where only the stand-in looks: reach() translates, if the address is in a
// block that exists at this moment in the order of the stream. What is freed is made inaccessible,
// its addresses are not used again, and fresh memory has an odd content. A block ends at most 255
// bytes before an inaccessible page; these bytes are looked at when it is freed.
class Memory {
  public:
    static Memory& get();

    // Makes a block that cannot be used yet; 0: there is no room.
    std::uint64_t reserve(std::size_t bytes, int device, bool in_order = false);
    // Whether this is such a block, made in the order of a stream.
    [[nodiscard]] bool is_in_order(std::uint64_t address);
    // In the order of a stream, or at once.
    void open(std::uint64_t address);
    void close(std::uint64_t address);
    // Whether this address is that of a block that nobody has given back so far. Then it is given
    // back: a second time is an error.
    bool give_back(std::uint64_t address);

    void* pin(std::size_t bytes);
    bool unpin(void* memory);

    enum class Kind { pageable, pinned, device };
    struct Place {
        Kind kind = Kind::pageable;
        int device = -1;  // -1 also for device memory that was given back
    };
    [[nodiscard]] Place place_of(std::uint64_t address);

    // Where work of a stream of this device finds these bytes; throws IllegalAddress.
    std::byte* reach(std::uint64_t address, std::size_t bytes, int device);

    // Blocks that were not given back.
    [[nodiscard]] long blocks();

  private:
    Memory();

    struct Block {
        std::size_t bytes = 0;
        std::uint64_t pages = 0;  // where its first page is
        std::size_t page_bytes = 0;
        int device = 0;
        bool is_open = false;
        bool given_back = false;
        bool in_order = false;
    };
    // The block, pinned or on a device, that the address is in.
    template <typename Blocks>
    static auto block_at(Blocks& blocks, std::uint64_t address) -> decltype(&*blocks.begin());

    std::mutex mutex_;
    std::uint64_t range_ = 0;  // the addresses of the devices
    std::uint64_t bytes_ = 0;  // where their bytes are
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, Block> blocks_;
    std::map<std::uint64_t, Block> pinned_;
};

}  // namespace standin
