// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/failure.hpp"
#include "core/visible_layout.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// What this rank has done; see mpib_counters for what each number means. Any thread may call any
// function at any time, except for add_call(). Adding costs a few uncontended atomic additions and
// never waits. Each number read is correct, but they are not all of one instant.
//
// Kinds out of range are not counted.
class Counters {
  public:
    using Nanoseconds = std::chrono::nanoseconds;
    using TimePoint = std::chrono::steady_clock::time_point;

    // An operation of a caller has ended; bytes of its send buffer.
    void add_operation(mpib_kind kind, std::uint64_t bytes, bool ok) noexcept;
    // A collective has been run: one call, or one bucket of operations. See bus_bytes().
    void add_collective(mpib_kind kind, std::uint64_t bus_bytes, Nanoseconds transfer) noexcept;
    // Both at once, for an operation that succeeded and was a collective of its own. Only one
    // thread at a time may call this: a number that only one thread changes needs no atomic
    // addition, and five of those take a tenth of the time of a small allreduce.
    void add_call(mpib_kind kind, std::uint64_t bytes, std::uint64_t bus_bytes,
                  Nanoseconds transfer) noexcept;

    // All operations of a process set have ended at `end`, of which this rank submitted the last
    // one at `begin`. What the thread has told before does not count again.
    void add_waited(TimePoint begin, TimePoint end) noexcept;
    // A blocking call has waited so long. Only one thread at a time may call this.
    void add_waited_in_call(Nanoseconds time) noexcept;
    // Shows what is waited from now on in `table` as well, which must outlive all calls; null ends
    // that.
    void show_waited(WaitedTable* table) noexcept { shown_.store(table); }

    // A control round in which the ranks agreed.
    void add_negotiation(Nanoseconds time) noexcept;
    // An operation has been found submitted on all ranks; `time` has passed since its submission
    // here.
    void add_queued(Nanoseconds time) noexcept;
    void add_pack(Nanoseconds time) noexcept;
    void add_unpack(Nanoseconds time) noexcept;
    void add_planned_bucket() noexcept;
    void add_inline_bucket() noexcept;
    void add_plan_made() noexcept;
    void add_plan_broken() noexcept;

    // Fills the caller's struct up to its struct_bytes: a caller compiled with an older, shorter
    // struct gets the fields that it knows, and one with a longer struct gets zeros for what this
    // library does not count. Fails with MPIB_ERROR_INVALID_ARGUMENT when not even struct_bytes
    // fits.
    [[nodiscard]] Done read(mpib_counters& into) const;

    // Sets everything to zero. What other threads add meanwhile may be lost or kept, and what they
    // have added by add_call() may come back.
    void reset() noexcept;

  private:
    using Number = std::atomic<std::uint64_t>;
    static constexpr std::size_t cache_line = 64;

    // The numbers of one kind change together; those of two kinds often change on different
    // threads.
    struct alignas(cache_line) OfKind {
        Number operations{0};
        Number failures{0};
        Number bytes{0};
        Number collectives{0};
        Number bus_bytes{0};
        Number transfer_nanoseconds{0};
    };
    struct alignas(cache_line) OfEngine {
        Number queued_nanoseconds{0};
        Number negotiation_nanoseconds{0};
        Number pack_nanoseconds{0};
        Number unpack_nanoseconds{0};
        Number negotiation_rounds{0};
        Number planned_buckets{0};
        Number plans_made{0};
        Number plans_broken{0};
        Number inline_buckets{0};
    };

    using Kinds = std::array<OfKind, MPIB_KIND_COUNT>;

    [[nodiscard]] static OfKind* of(Kinds& kinds, mpib_kind kind) noexcept;

    Kinds kinds_;
    Kinds calls_;  // by add_call()
    OfEngine engine_;
    std::atomic<WaitedTable*> shown_{nullptr};
};

}  // namespace mpi_bridge
