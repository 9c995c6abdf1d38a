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

// Copies a bucket from the place of the tensors to host memory, lets the host work on it, and
// copies it back, chunk by chunk through a few slots of pinned memory:
//
//   outbound queue   | chunk 2 | chunk 3 | chunk 4 |
//   host (this thread)         | chunk 2 | chunk 3 | chunk 4 |
//   inbound queue                        | chunk 2 | chunk 3 | chunk 4 |
//
// So both directions of the bus and the host's collective are busy at the same time. There are two
// queues, because one would serve the two directions in turns. What is copied back never comes
// before what the outbound queue holds at the call, such as the work of a caller's stream, also
// where nothing is copied to the host. Only one thread at a time may use it.
class Staging {
  public:
    struct Options {
        std::string name;                                // for messages
        std::size_t chunk_bytes = std::size_t{4} << 20;  // a multiple of 16
        Seconds patience = no_limit;                     // for one chunk to cross the bus
    };

    // The queues and the flag must outlive it. When the flag is set, waits end with a failure.
    Staging(WorkQueue& outbound, WorkQueue& inbound, const std::atomic<bool>& abandoned,
            Options options)
        : outbound_(outbound),
          inbound_(inbound),
          abandoned_(abandoned),
          options_(std::move(options)) {}

    // Allocates the slots. Must come before everything else.
    [[nodiscard]] Done prepare_slots();

    using OnHost = std::function<Done(std::span<std::byte> chunk)>;

    // For each chunk of `bytes` bytes: copies from `from` to a slot (unless it is null), calls
    // on_host(slot), and copies from the slot to `to` (unless it is null). from may be to. Returns
    // when the last chunk is on its way back; work that is then put into the inbound queue runs
    // after it.
    [[nodiscard]] Done run(const std::byte* from, std::byte* to, std::size_t bytes,
                           const OnHost& on_host);

    // Does the same in one piece, for collectives whose parts do not match chunks: on_host gets a
    // buffer of `bytes` bytes. Before, `out` bytes from `from` are copied to its offset `out_at`;
    // afterwards, `in` bytes at its offset `in_at` are copied to `to`.
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

    // Waits until the mark is reached, without using a processor for long.
    [[nodiscard]] Done await(WorkQueue& queue, WorkQueue::Mark mark, const char* step) const;

  private:
    // A slot is free when `used` is reached: its contents have been copied back to the tensors.
    struct Slot {
        Memory memory;
        WorkQueue::Mark used;
        WorkQueue::Mark filled;
    };
    static constexpr std::size_t slot_count = 4;

    [[nodiscard]] Done fill(Slot& slot, const std::byte* from, std::size_t bytes);
    // Work that is enqueued inbound later runs after what the outbound queue holds now.
    [[nodiscard]] Done hold_inbound();

    WorkQueue& outbound_;
    WorkQueue& inbound_;
    const std::atomic<bool>& abandoned_;
    Options options_;
    std::vector<Slot> slots_;
    GrowingMemory whole_;
    WorkQueue::Mark whole_used_;
};

}  // namespace mpi_bridge
