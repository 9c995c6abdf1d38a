// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shm/heap.hpp"
#include "shm/segment.hpp"
#include "shm/usable_cpus.hpp"

// The contents of the segment that the ranks of a node share.
//
//     Segment's header | Common | Slot of rank 0, 1, … | Staging buffer of rank 0, 1, …
//
// A slot holds what its rank tells the others; a staging buffer holds the data that its rank has
// under way. Rank 0 reserves everything up to the staging buffers. Each rank reserves its own
// staging buffer, so that it is in the memory next to the rank's processor. No rank accesses
// another rank's staging buffer before all ranks have met for the first time, and from then on each
// part of a staging buffer belongs to one rank at a time: the number of the call or of the step
// says to which, and flags say when it is free.
//
// Each flag has one writer. Flags of different writers are two cache lines apart, because
// processors fetch lines in pairs. Flags are 32 bits wide, because a futex is, and they may wrap
// around.
namespace mpi_bridge::shm {

// The number of ranks is limited because each rank reads a line of every other rank in each call.
constexpr int most_ranks = 256;
constexpr std::size_t cache_line = 64;
constexpr std::size_t line_pair = 2 * cache_line;

using Flag = std::atomic<std::uint32_t>;
static_assert(Flag::is_always_lock_free && sizeof(Flag) == 4);

// What a rank tells the others at the start of a call. Each rank has two entries, used in turns.
struct alignas(line_pair) Entry {
    // The number of the call. Written last, by the slot's rank; read by all ranks.
    Flag call;
    std::uint64_t agreement;  // digest of what all ranks must agree on
    // The data itself if it fits, otherwise a Location.
    std::byte payload[112];
};
static_assert(sizeof(Entry) == line_pair);
constexpr std::size_t inline_bytes = sizeof Entry::payload;

// Where a rank's buffers are: offsets in its shared heap, or `in_private` for private memory.
struct Location {
    static constexpr std::uint64_t in_private = ~std::uint64_t{0};
    std::uint64_t source = in_private;
    std::uint64_t target = in_private;

    [[nodiscard]] bool source_is_shared() const { return source != in_private; }
    [[nodiscard]] bool all_shared() const { return source_is_shared() && target != in_private; }
};

// Identifies a rank. Written by the slot's rank before its first entry, read by all ranks
// afterwards.
struct Identity {
    std::int64_t process;
    SharedHeap::Ticket heap;
    CpuSet cpus;
};

enum class Presence : std::uint32_t { awaited, attached, departed };

struct Slot {
    Entry entries[2];
    // The number of steps that the rank has done since the segment was made. Written by the slot's
    // rank, read by all ranks.
    alignas(line_pair) Flag progress;
    // How many ranks sleep until a flag of this slot changes. Written by the sleepers and read by
    // the slot's rank, which has to wake them.
    alignas(line_pair) Flag sleepers;
    // A Presence. Written by the slot's rank, read by ranks that have waited for it in vain.
    alignas(line_pair) Flag presence;
    Identity identity;
};

// The first failure, which ends the use of the segment for all ranks.
struct Breakage {
    enum State : std::uint32_t { none, being_described, described };
    // Set by the first rank that fails, by an atomic exchange. Read by all ranks when they wait.
    alignas(line_pair) Flag state;
    std::int32_t rank;
    std::int32_t status;
    char text[496];
};

// Lengths of the parts of a staging buffer, chosen by rank 0.
struct Measures {
    std::uint32_t ranks;
    std::uint32_t flat_bytes;   // of one flat area; a staging buffer has two, used in turns
    std::uint32_t piece_bytes;  // of one piece of a staged transfer

    // The size of one half of the stage, which holds one piece for each rank.
    [[nodiscard]] std::size_t half_bytes() const {
        return static_cast<std::size_t>(ranks) * piece_bytes;
    }
    // Rounded up to a whole number of pages.
    [[nodiscard]] std::size_t staging_bytes() const {
        return (2 * (flat_bytes + half_bytes()) + page - 1) / page * page;
    }
    static constexpr std::size_t page = 4096;
};

struct Common {
    Measures measures;  // written by rank 0 before the others attach
    Breakage breakage;
};

// Computes addresses in a mapped segment.
class Layout {
  public:
    Layout(std::byte* memory, const Measures& measures) : memory_(memory), measures_(measures) {}

    [[nodiscard]] const Measures& measures() const { return measures_; }
    [[nodiscard]] Common& common() const { return common_of(memory_); }
    [[nodiscard]] Slot& slot(int rank) const {
        return *reinterpret_cast<Slot*>(memory_ + slots_at +
                                        static_cast<std::size_t>(rank) * sizeof(Slot));
    }
    // The flat area of a call, by the call's number. Two ranks exchange their areas after each use,
    // so that each writes where it has read last. A cache line that the writer has read last costs
    // a fraction of one that must be taken from another processor's cache.
    [[nodiscard]] std::byte* flat_area(int rank, std::uint32_t call) const {
        const bool exchanged = measures_.ranks == 2 && (call & 2U) != 0;
        return memory_ + staging_at(measures_, exchanged ? 1 - rank : rank) +
               std::size_t{call % 2} * measures_.flat_bytes;
    }
    // The half of the stage for a step, by the step's number.
    [[nodiscard]] std::byte* half(int rank, std::uint32_t step) const {
        return memory_ + staging_at(measures_, rank) + 2UL * measures_.flat_bytes +
               std::size_t{step % 2} * measures_.half_bytes();
    }
    // In such a half: the piece that rank `from` has for rank `to`. A rank has none for itself, so
    // what it has for all is in that place.
    [[nodiscard]] std::byte* piece(int from, int to, std::uint32_t step) const {
        return half(from, step) + static_cast<std::size_t>(to) * measures_.piece_bytes;
    }
    // The same, for a transfer after which the reader does not write into the piece: the two pieces
    // of a pair of ranks take turns, for the same reason.
    [[nodiscard]] std::byte* piece_in_turn(int from, int to, std::uint32_t step) const {
        return (step & 2U) == 0 ? piece(from, to, step) : piece(to, from, step);
    }

    [[nodiscard]] static Common& common_of(std::byte* memory) {
        return *reinterpret_cast<Common*>(memory + Segment::header_bytes);
    }
    [[nodiscard]] static std::size_t staging_at(const Measures& measures, int rank) {
        const std::size_t slots_end = slots_at + measures.ranks * sizeof(Slot);
        return (slots_end + Measures::page - 1) / Measures::page * Measures::page +
               static_cast<std::size_t>(rank) * measures.staging_bytes();
    }
    [[nodiscard]] static std::size_t bytes(const Measures& measures) {
        return staging_at(measures, static_cast<int>(measures.ranks));
    }

  private:
    static constexpr std::size_t slots_at = Segment::header_bytes + sizeof(Common);
    static_assert(slots_at % line_pair == 0);

    std::byte* memory_;
    Measures measures_;
};

}  // namespace mpi_bridge::shm
