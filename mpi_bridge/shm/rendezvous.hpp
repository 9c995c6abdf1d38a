// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/waits.hpp"
#include "shm/layout.hpp"
#include "shm/segment.hpp"

// How the ranks of a node keep in step.
//
// Calls. All ranks make the same calls in the same order. A call begins with meet(): every rank
// writes its entry and waits for the entries of all others. So a rank that has met in call c knows
// that all others have finished call c-1. Two entries (and two flat areas) per rank, used in turns,
// are enough: a rank writes the entry of call c+2 only after it has met in call c+1, that is, after
// every rank has begun call c+1 and so has finished reading the entries of call c.
//
// Steps. Within a call, ranks proceed in steps, the same number on all ranks; `progress` counts the
// steps since the segment was made. Data that a rank puts in its staging buffer in step s (counted
// before advance()) goes into half s % 2. Every algorithm keeps these rules:
//   1. A rank puts data into half s % 2 only when all ranks have done s steps.
//   2. Data of step s is read by others once the progress of the rank that put it there is above s.
//   3. A rank that has to read data of step s does so before it advances to s+2.
// So data is never overwritten before it was read: the next data in the same half is put there in
// step s+2. By (1) every rank has then advanced to s+2, and so, by (3), every rank has read.
// Results that are put in the staging buffer between two steps, while `progress` is s+1, are data
// of step s too. They become readable at progress s+2 and are read before s+3, one step later than
// other data of their half. Within a call nobody else writes to their places before that. A call
// that ends by reading results skips a step, so that the next call begins with the other half.
//
// Memory order. A flag is written with release after the data, and read with acquire before the
// data. No other operation provides any order: the payload is plain memory.
//
// Waiting. A rank first polls for twenty to eighty microseconds (`spins`), then yields the
// processor between polls, and then sleeps in slices, checking for failed or dead peers between
// them. Where ranks outnumber processors the first phase is left out.
//
// No wake-up is lost. A sleeper increments `sleepers` (A1), then reads the flag (A2), in user space
// and again in the kernel, and sleeps only if that gives the old value. A writer sets the flag
// (B1), then reads `sleepers` by a read-modify-write (B2), in wake(). The read-modify-writes of one
// object have one order. If B2 comes before A1, A1 reads from B2 or later, so B1 happens before A2,
// and the sleeper sees the flag. If A1 comes before B2, the writer sees a sleeper and calls the
// kernel, which wakes it or, if it does not sleep yet, lets it find the flag. wake() is not called
// at once, but after the spinning phase of the writer's own wait, when the flag's line was handed
// over long ago and the read-modify-write costs next to nothing. It is always called before a rank
// yields the processor or leaves.
namespace mpi_bridge::shm {

// One collective call.
struct Turn {
    std::string_view name;        // for messages, such as "allreduce"; must outlive the call
    std::uint64_t agreement = 0;  // digest of what all ranks must agree on
    Seconds patience = no_limit;  // how long to wait for a rank in one step
};

// This rank's side of the rendezvous. Not thread-safe, except for break_off().
class Rendezvous {
  public:
    struct Options {
        int rank = 0;
        int size = 1;
        std::vector<int> ranks;  // of the job, by local rank; empty: not known
        Waits* waits = nullptr;  // where long waits are recorded, or nullptr
        Waits::Lane lane = Waits::Lane::direct;
        // The number from which all ranks count their steps; tests of the wrap-around choose it.
        std::uint32_t first_step = 0;
    };
    Rendezvous(std::shared_ptr<Segment> segment, const Layout& layout, Options options);
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;
    ~Rendezvous();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] const Layout& layout() const { return layout_; }
    [[nodiscard]] Segment& segment() { return *segment_; }

    // Publishes this rank's identity. Called once, before the first call.
    [[nodiscard]] Done attach(const SharedHeap::Ticket& heap);
    // Sets whether waits begin with spinning.
    void set_crowded(bool crowded) { spins_ = crowded ? 0 : spins; }

    // Starts a call on this rank; fails if the segment is broken. The messages of this call contain
    // what `turn` says. After this, the staging buffer may be filled.
    [[nodiscard]] Done begin(const Turn& turn);

    // Exchanges entries: afterwards all ranks have begun this call, and entry() returns theirs. If
    // a rank's digest differs, the call fails with MPIB_ERROR_MISMATCH on every rank. The payload
    // is at most inline_bytes long.
    [[nodiscard]] Done meet(std::uint64_t digest, std::span<const std::byte> payload);
    [[nodiscard]] const Entry& entry(int rank) const {
        return layout_.slot(rank).entries[call_ % 2];
    }
    // The flat area of a rank for the current call.
    [[nodiscard]] std::byte* flat_area(int rank) const { return layout_.flat_area(rank, call_); }

    [[nodiscard]] std::uint32_t steps() const { return steps_; }
    // Tells the others that this rank has done one more step.
    void advance() {
        ++steps_;
        own_slot().progress.store(steps_, std::memory_order_release);
    }
    // Counts the meeting of this call as a step of all ranks, which covers what was put on the
    // staging buffers before it. Any further steps must be counted by advance(). The flag is not
    // written each time, because no rank waits for it. But it is written once in a while: it must
    // not fall so far behind that the difference to the number of steps loses its sign, see
    // reached().
    void count_meeting() {
        common_steps_ = ++steps_;
        if (steps_ % largest_lag == 0) {
            own_slot().progress.store(steps_, std::memory_order_release);
        }
    }
    // Counts a step in which nothing is done, so that the next pieces are put into the half of the
    // stage that other ranks no longer use. All ranks must do so, after await_all().
    void skip_step() { count_meeting(); }
    // Waits until all ranks have done as many steps as this one.
    [[nodiscard]] Done await_all();
    // Waits until that rank has done as many steps as this one.
    [[nodiscard]] Done await_rank(int rank);

    // Wakes the ranks that sleep on this rank's flags. Needed only after an advance() that is not
    // followed by a wait in the same call.
    void wake() {
        if (own_slot().sleepers.fetch_add(0, std::memory_order_acq_rel) != 0) wake_sleepers();
    }

    // Ends the use of the segment for all ranks, naming this rank as the one that failed, and
    // returns the failure. Only the first failure of all ranks counts. Any thread may call.
    tl::unexpected<Failure> break_off(Failure failure);

    // "allreduce over shared memory (call 17), step 3, local rank 0 of 4"
    [[nodiscard]] std::string where() const;

  private:
    // The condition that a rank is awaited for: a flag of its slot reaches a value, that of its
    // entry for the call or that of its progress.
    struct Goal {
        enum Kind { arrival, progress } kind;
        std::uint32_t value;
    };
    [[nodiscard]] Flag& flag(int rank, Goal goal) const;
    [[nodiscard]] bool reached(int rank, Goal goal) const;

    [[nodiscard]] Done await(Goal goal, int first, int last);
    [[nodiscard]] Done await_patiently(Goal goal, int first, int last);
    void sleep(int rank, Goal goal, Deadline deadline);
    [[nodiscard]] Done look_for_trouble(Goal goal, int first, int last, Deadline deadline);
    [[nodiscard]] Failure describe_breakage() const;
    [[nodiscard]] std::string name_of(int rank) const;
    // The rank's number in the job; -1 if it is not known.
    [[nodiscard]] int global(int rank) const {
        return ranks_.empty() ? -1 : ranks_[static_cast<std::size_t>(rank)];
    }
    void wake_sleepers();

    [[nodiscard]] Slot& own_slot() const { return *own_slot_; }

    // How many steps a rank's `progress` flag may be behind its count, at most.
    static constexpr std::uint32_t largest_lag = 1024;
    // Twenty to eighty microseconds, depending on the processor. A rank that yields earlier may
    // lose its processor to another program for a whole time slice, in every step of a long
    // transfer.
    static constexpr int spins = 2000;

    std::shared_ptr<Segment> segment_;
    Layout layout_;
    Slot* own_slot_;
    std::vector<int> ranks_;
    Waits* waits_;
    Waits::Lane lane_;
    int rank_;
    int size_;
    int spins_ = spins;
    std::uint32_t call_ = 0;  // calls begun
    std::uint32_t steps_;     // steps done
    // Steps that all ranks are known to have done: those before the last meeting, or before the
    // last await_all().
    std::uint32_t common_steps_;
    Turn turn_;
    std::int64_t process_;  // owner of this object; a forked child must not act for it
};

}  // namespace mpi_bridge::shm
