// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "shm/layout.hpp"
#include "shm/segment.hpp"

// How the ranks of a node keep in step.
//
// Calls. All ranks make the same calls in the same order. A call begins with meet(): every rank
// writes its entry and awaits the entries of all others. So a rank that has met call c knows that
// all others have finished call c-1. There are two entries (and two flat areas) per rank, used in
// turns, and that is enough: a rank writes the entry of call c+2 only after it met call c+1, that
// is after every rank began call c+1 and so had finished reading the entries of call c.
//
// Steps. Within a call, ranks move on in steps, the same number on all ranks; `progress` counts the
// steps since the segment was made. Data that a rank puts on its bench in step s (counted before
// advance()) goes into half s % 2. The rules, which every algorithm keeps:
//   1. A rank puts data into half s % 2 only when all ranks have done s steps.
//   2. Data of step s is read by others once the progress of the rank that put it there is above s.
//   3. A rank that is to read data of step s does so before it advances to s+2.
// So data is never overwritten before it was read: what follows in the same half is put there in
// step s+2, by (1) after every rank advanced to s+2, by (3) after every rank has read.
// Results that are put on the bench between two steps, while `progress` is s+1, are data of step s
// too, in a part of the half of their own; they are covered by progress s+2 and read before s+3,
// and the same argument holds, one step later.
//
// Memory order. A flag is written with release after the data, and read with acquire before the
// data. Nothing else orders anything: payload is plain memory.
//
// Waiting. First look again and again, for a microsecond or two; then give the processor away
// between looks; then sleep, in slices, looking for broken or dead peers between them. Where ranks
// outnumber processors the first part is left out.
//
// No wake-up is lost. A sleeper increments `sleepers` (A1), then looks at the flag (A2), in user
// space and again in the kernel, and sleeps only if that finds the old value. A writer sets the
// flag (B1), then reads `sleepers` by a read-modify-write (B2), in wake(). Read-modify-writes of
// one object have one order. If B2 comes before A1, A1 reads from B2 or later, so B1 happens before
// A2, and the sleeper sees the flag. If A1 comes before B2, the writer sees a sleeper and calls the
// kernel, which wakes it or, if it does not sleep yet, lets it find the flag. wake() is not called
// at once, but after the spinning part of the writer's own wait, when the flag's line has long been
// handed over and the read-modify-write costs next to nothing; and always before a rank gives its
// processor away or leaves.
namespace mpi_bridge::shm {

// One collective call.
struct Turn {
    std::string_view name;        // for messages, such as "allreduce"; must outlive the call
    std::uint64_t agreement = 0;  // digest of what all ranks must agree in
    Seconds patience{300};        // how long to wait for a rank in one step
};

// This rank's part in it. Not thread-safe, except for break_off().
class Rendezvous {
  public:
    // All ranks count their steps from `first_step`; tests of the wrap-around choose it.
    Rendezvous(std::shared_ptr<Segment> segment, const Layout& layout, int rank, int size,
               std::uint32_t first_step = 0);
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;
    ~Rendezvous();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] const Layout& layout() const { return layout_; }
    [[nodiscard]] Segment& segment() { return *segment_; }

    // Says who this rank is. Once, before the first call.
    [[nodiscard]] Done attach(const SharedHeap::Ticket& heap);
    // Stop spinning before giving the processor away, or not.
    void set_crowded(bool crowded) { spins_ = crowded ? 0 : spins; }

    // Starts a call on this rank; fails if the segment is broken. What meet() is given is put in
    // the messages of this call. After it, the bench may be filled.
    [[nodiscard]] Done begin(const Turn& turn);

    // Exchanges entries: afterwards all ranks have begun this call and entry() shows theirs. A
    // rank whose digest differs is a MPIB_ERROR_MISMATCH on every rank. The payload is at most
    // inline_bytes long.
    [[nodiscard]] Done meet(std::uint64_t digest, std::span<const std::byte> payload);
    [[nodiscard]] const Entry& entry(int rank) const {
        return layout_.desk(rank).entries[call_ % 2];
    }
    // Where this rank's flat area of the current call is, and those of others.
    [[nodiscard]] std::byte* flat_area(int rank) const { return layout_.flat_area(rank, call_); }

    [[nodiscard]] std::uint32_t steps() const { return steps_; }
    // Says that this rank has done one more step.
    void advance() {
        ++steps_;
        own_desk().progress.store(steps_, std::memory_order_release);
    }
    // Counts the meeting of this call as a step of all ranks: what was put on the benches before
    // it can be read. To be followed by further steps only by way of advance(). The flag is not
    // written, because nobody waits for it, but for once in a while: it must not fall so far behind
    // that the difference to the number of steps loses its sign, see reached().
    void count_meeting() {
        common_steps_ = ++steps_;
        if (steps_ % largest_lag == 0) {
            own_desk().progress.store(steps_, std::memory_order_release);
        }
    }
    // Until all ranks have done as many steps as this one.
    [[nodiscard]] Done await_all();
    // Until that one has.
    [[nodiscard]] Done await_rank(int rank);

    // Wakes whoever sleeps on this rank's flags. Needed only after an advance() that no await
    // follows in the same call.
    void wake() {
        if (own_desk().sleepers.fetch_add(0, std::memory_order_acq_rel) != 0) wake_sleepers();
    }

    // Ends the use of the segment for all ranks, with this rank as the culprit, and passes the
    // failure on. The first one counts. Any thread.
    tl::unexpected<Failure> break_off(Failure failure);

    // "step 3 of allreduce (call 17 on this node), local rank 0 of 4"
    [[nodiscard]] std::string where() const;

  private:
    // What a rank is awaited for: a flag of its desk that is to reach a value.
    struct Goal {
        enum Kind { entry, progress } kind;
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
    void wake_sleepers();

    [[nodiscard]] Desk& own_desk() const { return *own_desk_; }

    // How many steps a rank's `progress` may be behind, at most.
    static constexpr std::uint32_t largest_lag = 1024;
    static constexpr int spins = 100;  // one to four microseconds, by processor

    std::shared_ptr<Segment> segment_;
    Layout layout_;
    Desk* own_desk_;
    int rank_;
    int size_;
    int spins_ = spins;
    std::uint32_t call_ = 0;  // calls begun
    std::uint32_t steps_;     // steps done
    // Steps that all ranks are known to have done: those before the last meeting, or the last
    // await_all().
    std::uint32_t common_steps_;
    Turn turn_;
    std::int64_t process_;  // this one; a forked child must not speak for it
};

}  // namespace mpi_bridge::shm
