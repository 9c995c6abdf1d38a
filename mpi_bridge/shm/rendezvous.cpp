// SPDX-License-Identifier: Apache-2.0
#include "shm/rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "core/interruption.hpp"
#include "shm/futex.hpp"

namespace mpi_bridge::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// For about this long, yielding the processor costs less than sleeping and being woken.
constexpr microseconds yielding{50};
constexpr milliseconds longest_sleep{100};

// Tells the processor that this is a waiting loop.
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

Rendezvous::Rendezvous(std::shared_ptr<Segment> segment, const Layout& layout, Options options)
    : segment_(std::move(segment)),
      layout_(layout),
      own_slot_(&layout_.slot(options.rank)),
      ranks_(std::move(options.ranks)),
      waits_(ranks_.empty() ? nullptr : options.waits),
      lane_(options.lane),
      rank_(options.rank),
      size_(options.size),
      steps_(options.first_step),
      common_steps_(options.first_step),
      process_(::getpid()) {}

Rendezvous::~Rendezvous() {
    if (process_ != ::getpid()) return;
    auto& presence = own_slot().presence;
    presence.store(static_cast<std::uint32_t>(Presence::departed), std::memory_order_release);
    wake();
}

Done Rendezvous::attach(const SharedHeap::Ticket& heap) {
    TRY(segment_->lock(rank_));
    own_slot().identity = Identity{process_, heap, usable_cpus()};
    own_slot().progress.store(steps_, std::memory_order_relaxed);
    own_slot().presence.store(static_cast<std::uint32_t>(Presence::attached),
                              std::memory_order_release);
    return {};
}

Done Rendezvous::begin(const Turn& turn) {
    turn_ = turn;
    ++call_;
    if (layout_.common().breakage.state.load(std::memory_order_relaxed) != Breakage::none) {
        return tl::unexpected(describe_breakage());
    }
    // Enforces rule 1 for the first step of this call, where the last call ended before all ranks
    // had done its last step.
    return await_all();
}

Done Rendezvous::meet(std::uint64_t digest, std::span<const std::byte> payload) {
    Entry& own = own_slot().entries[call_ % 2];
    if (!payload.empty()) std::memcpy(own.payload, payload.data(), payload.size());
    own.agreement = digest;
    own.call.store(call_, std::memory_order_release);
    TRY(await({Goal::arrival, call_}, 0, size_));
    common_steps_ = steps_;
    for (int peer = 0; peer < size_; ++peer) {
        const Entry& other = entry(peer);
        if (other.agreement == digest) continue;
        return break_off({MPIB_ERROR_MISMATCH,
                          fmt::format("{}: {} makes another call, or the same one with another "
                                      "length, datatype, operation or root (digest {:016x} here, "
                                      "{:016x} there)",
                                      where(), name_of(peer), digest, other.agreement)});
    }
    return {};
}

Done Rendezvous::await_all() {
    // After count_meeting() the flags lag behind what is known, so they are not read.
    if (common_steps_ == steps_) return {};
    auto done = await({Goal::progress, steps_}, 0, size_);
    if (done) common_steps_ = steps_;
    return done;
}

Done Rendezvous::await_rank(int rank) {
    return await({Goal::progress, steps_}, rank, rank + 1);
}

Flag& Rendezvous::flag(int rank, Goal goal) const {
    Slot& slot = layout_.slot(rank);
    return goal.kind == Goal::arrival ? slot.entries[goal.value % 2].call : slot.progress;
}

bool Rendezvous::reached(int rank, Goal goal) const {
    const std::uint32_t value = flag(rank, goal).load(std::memory_order_acquire);
    // No rank is 2^31 steps ahead, and no flag is 2^31 steps behind, so the sign of the difference
    // gives the order across a wrap-around. A rank is at most a few steps from the others, and its
    // flag is at most largest_lag behind its count. An entry's flag holds the number of this call
    // or that of the call two before it.
    return static_cast<std::int32_t>(value - goal.value) >= 0;
}

Done Rendezvous::await(Goal goal, int first, int last) {
    int spins_left = spins_;
    for (int peer = first; peer < last; ++peer) {
        while (!reached(peer, goal)) {
            if (--spins_left < 0) return await_patiently(goal, peer, last);
            relax();
        }
    }
    wake();
    return {};
}

Done Rendezvous::await_patiently(Goal goal, int first, int last) {
    wake();
    const auto start = Clock::now();
    const auto deadline = Deadline::in(turn_.patience);
    auto last_look = start;
    std::optional<Waits::Waiting> waiting;
    for (int peer = first; peer < last; ++peer) {
        if (waiting) waiting->go_on_for(global(peer));
        while (!reached(peer, goal)) {
            if (layout_.common().breakage.state.load(std::memory_order_acquire) != Breakage::none) {
                return tl::unexpected(describe_breakage());
            }
            const auto now = Clock::now();
            if (now - start < yielding) {
                std::this_thread::yield();
                continue;
            }
            if (now - last_look >= longest_sleep || now >= deadline.when()) {
                last_look = now;
                TRY(look_for_trouble(goal, peer, last, deadline));
                Interruption::look();
            }
            if (!waiting) waiting.emplace(waits_, global(peer), lane_);
            sleep(peer, goal, deadline);
        }
    }
    return {};
}

void Rendezvous::sleep(int rank, Goal goal, Deadline deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.when() - Clock::now());
    Slot& slot = layout_.slot(rank);
    Flag& word = flag(rank, goal);
    slot.sleepers.fetch_add(1, std::memory_order_acq_rel);
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (!reached(rank, goal) && left.count() > 0) {
        futex_wait(word, seen, std::min<std::chrono::nanoseconds>(left, longest_sleep));
    }
    slot.sleepers.fetch_sub(1, std::memory_order_acq_rel);
}

Done Rendezvous::look_for_trouble(Goal goal, int first, int last, Deadline deadline) {
    for (int peer = first; peer < last; ++peer) {
        Slot& slot = layout_.slot(peer);
        const auto presence = static_cast<Presence>(slot.presence.load(std::memory_order_acquire));
        if (presence == Presence::awaited || reached(peer, goal)) continue;
        const bool gone =
            slot.identity.process != process_ && !segment_->is_locked_by_another(peer);
        if (presence != Presence::departed && !gone) continue;
        // The rank may have done its part before it went.
        if (reached(peer, goal)) continue;
        return break_off(
            {MPIB_ERROR_PEER_LOST,
             fmt::format(
                 "{}: lost {}: {}; look for its first error", where(), name_of(peer),
                 presence == Presence::departed ? "it has left the job" : "its process is gone"),
             global(peer)});
    }
    if (!deadline.passed()) return {};
    return break_off({MPIB_ERROR_TIMEOUT,
                      fmt::format("{}: timed out after {:g} s waiting for {}: that rank is late, "
                                  "stuck, or did not make this call",
                                  where(), turn_.patience.count(), name_of(first))});
}

void Rendezvous::wake_sleepers() {
    for (Entry& entry : own_slot().entries)
        futex_wake_all(entry.call);
    futex_wake_all(own_slot().progress);
}

tl::unexpected<Failure> Rendezvous::break_off(Failure failure) {
    Breakage& breakage = layout_.common().breakage;
    std::uint32_t none = Breakage::none;
    if (breakage.state.compare_exchange_strong(none, Breakage::being_described,
                                               std::memory_order_acq_rel)) {
        breakage.rank = rank_;
        breakage.status = failure.status;
        const std::size_t length = failure.text.copy(breakage.text, sizeof breakage.text - 1);
        breakage.text[length] = '\0';
        breakage.state.store(Breakage::described, std::memory_order_release);
        // Sleepers would notice within a slice, but there is no reason to make them wait for that.
        for (int peer = 0; peer < size_; ++peer) {
            for (Entry& entry : layout_.slot(peer).entries)
                futex_wake_all(entry.call);
            futex_wake_all(layout_.slot(peer).progress);
        }
    }
    return tl::unexpected(std::move(failure));
}

Failure Rendezvous::describe_breakage() const {
    const Breakage& breakage = layout_.common().breakage;
    // The rank that failed may be about to finish its text, or may have died while writing it. On a
    // busy host it can take a while to come to its next instruction.
    const auto deadline = Deadline::in(Seconds(2));
    while (breakage.state.load(std::memory_order_acquire) != Breakage::described) {
        if (deadline.passed()) {
            return {MPIB_ERROR_PEER_LOST,
                    fmt::format("{}: another rank of this node failed and died before it could say "
                                "why; look for its first error",
                                where())};
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return {static_cast<mpib_status>(breakage.status),
            fmt::format("{}: {} failed first: {}", where(), name_of(breakage.rank), breakage.text)};
}

std::string Rendezvous::where() const {
    return fmt::format("{} over shared memory (call {}), step {}, local rank {} of {}", turn_.name,
                       call_, steps_, rank_, size_);
}

std::string Rendezvous::name_of(int rank) const {
    const Slot& slot = layout_.slot(rank);
    if (slot.presence.load(std::memory_order_acquire) ==
        static_cast<std::uint32_t>(Presence::awaited)) {
        return fmt::format("local rank {} (not attached yet)", rank);
    }
    return fmt::format("local rank {} (process {})", rank, slot.identity.process);
}

}  // namespace mpi_bridge::shm
