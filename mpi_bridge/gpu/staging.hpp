// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "gpu/work_queue.hpp"

namespace mpi_bridge {

// Carries a bucket from where tensors are to host memory, lets the host work on it, and carries it
// back, chunk by chunk through a few slots of pinned memory:
//
//   outbound queue   | chunk 2 | chunk 3 | chunk 4 |
//   host (this thread)         | chunk 2 | chunk 3 | chunk 4 |
//   inbound queue                        | chunk 2 | chunk 3 | chunk 4 |
//
// so that both directions of the bus and the host's collective run at the same time. Two queues,
// because one would take the directions in turns. One thread at a time.
class Staging {
  public:
    struct Options {
        std::string name;                                // for messages
        std::size_t chunk_bytes = std::size_t{4} << 20;  // a multiple of 16
        Seconds patience{300};                           // for one chunk to cross the bus
    };

    // The queues and the flag must outlive it. When the flag is set, waits end with a failure.
    Staging(WorkQueue& outbound, WorkQueue& inbound, const std::atomic<bool>& stopped,
            Options options)
        : outbound_(outbound), inbound_(inbound), stopped_(stopped), options_(std::move(options)) {}

    using OnHost = std::function<Done(std::span<std::byte> chunk)>;

    // For each chunk of `bytes` bytes: from `from` to a slot (not when null), on_host(slot), from
    // the slot to `to` (not when null). from may be to. Returns when the last chunk is on its way
    // back; what is put into the inbound queue then comes after it.
    [[nodiscard]] Done run(const std::byte* from, std::byte* to, std::size_t bytes,
                           const OnHost& on_host);

    // The same in one piece, for collectives whose parts are not found chunk by chunk: on_host gets
    // `bytes` bytes; before, `out` bytes from `from` are put at `out_at` of them, and after, `in`
    // bytes at `in_at` of them go to `to`.
    struct Whole {
        std::size_t bytes = 0;
        const std::byte* from = nullptr;
        std::size_t out_at = 0;
        std::size_t out = 0;
        std::byte* to = nullptr;
        std::size_t in_at = 0;
        std::size_t in = 0;
    };
    [[nodiscard]] Done run_whole(const Whole& whole, const OnHost& on_host);

    // Waits until the mark is reached, without holding a processor for long.
    [[nodiscard]] Done await(WorkQueue& queue, WorkQueue::Mark mark, const char* step) const;

  private:
    // Free when `used` is reached: what it held is back with the tensors.
    struct Slot {
        Memory memory;
        WorkQueue::Mark used;
        WorkQueue::Mark filled;
    };
    static constexpr std::size_t slot_count = 4;

    [[nodiscard]] Done prepare_slots();
    [[nodiscard]] Done fill(Slot& slot, const std::byte* from, std::size_t bytes);

    WorkQueue& outbound_;
    WorkQueue& inbound_;
    const std::atomic<bool>& stopped_;
    Options options_;
    std::vector<Slot> slots_;
    GrowingMemory whole_{GrowingMemory::Where::host};
    WorkQueue::Mark whole_used_;
};

}  // namespace mpi_bridge
