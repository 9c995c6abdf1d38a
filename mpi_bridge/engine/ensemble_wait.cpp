// SPDX-License-Identifier: Apache-2.0
//
// How callers wait for operations: they work off the planned lane where they can, look for a short
// while, and then sleep.
#include <algorithm>

#include <fmt/core.h>
#include <sched.h>

#include "engine/ensemble.hpp"

namespace mpi_bridge {
namespace {

// Some tens of microseconds, about what it costs to be woken.
constexpr int yields_before_sleep = 40;
constexpr Seconds longest_sleep{1};

Clock::time_point after(Clock::time_point from, Seconds time) {
    return from + std::chrono::duration_cast<Clock::duration>(time);
}

}  // namespace

std::optional<bool> Ensemble::poll(const Handle& handle) {
    Lock lock(mutex_);
    const Entry* entry = table_.find(handle);
    if (entry == nullptr) return std::nullopt;
    if (entry->stage != Entry::Stage::done) {
        watch_order(*entry, Clock::now());
        return false;
    }
    observed_ = std::max(observed_, entry->serial);
    if (entry->descriptor.device && !entry->failure) return poll_on_device(lock, entry->ticket);
    return true;
}

Done Ensemble::wait(const Handle& handle, double seconds) {
    Lock lock(mutex_);
    if (table_.find(handle) == nullptr) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT, "the handle is unknown, or was released");
    }
    const bool done = await(lock, handle, seconds);
    Entry* entry = table_.find(handle);
    if (entry == nullptr) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    "the handle was released while another thread waited for it");
    }
    if (!done) {
        return fail(MPIB_ERROR_TIMEOUT, fmt::format("{} is not done after {} s, and goes on",
                                                    described(*entry), seconds));
    }
    observed_ = std::max(observed_, entry->serial);
    if (entry->descriptor.device && !entry->failure) return wait_on_device(lock, *entry, seconds);
    return outcome_of(*entry);
}

// True when done; false when `seconds` have passed.
bool Ensemble::await(Lock& lock, const Handle& handle, double seconds) {
    std::optional<Clock::time_point> began;
    bool looked = false;
    for (;;) {
        Entry* entry = table_.find(handle);
        if (entry == nullptr || entry->stage == Entry::Stage::done) return true;
        if (entry->planned && lane_.can_run()) {
            run_head(lock, true);
            hand_over_lane();
            continue;
        }
        const auto now = Clock::now();
        if (!began) began = now;
        if (!looked) {
            looked = true;
            if (await_a_little(lock, handle)) continue;
            entry = table_.find(handle);
            if (entry == nullptr) return true;
        }
        if (seconds > 0 && now >= after(*began, Seconds(seconds))) return false;
        const bool stuck = entry->stage == Entry::Stage::waiting;
        const auto limit = after(std::max(*began, progress_), timeout());
        if (stuck && now >= limit) {
            const Failure failure = too_late(*entry);
            lock.unlock();
            host_.fail_all(failure);
            lock.lock();
            continue;
        }
        auto until = next_look(*entry, now);
        if (stuck) until = std::min(until, limit);
        if (seconds > 0) until = std::min(until, after(*began, Seconds(seconds)));
        watch_order(*entry, now);
        ++blocked_;
        changed_.wait_until(lock, until);
        --blocked_;
    }
}

// Looks a few times, since others may be about to finish. True when something changed.
bool Ensemble::await_a_little(Lock& lock, const Handle& handle) {
    for (int look = 0; look < yields_before_sleep; ++look) {
        lock.unlock();
        sched_yield();
        lock.lock();
        const Entry* entry = table_.find(handle);
        if (entry == nullptr || entry->stage == Entry::Stage::done) return true;
        if (entry->planned && lane_.can_run()) return true;
    }
    return false;
}

Clock::time_point Ensemble::next_look(const Entry& entry, Clock::time_point now) {
    if (entry.planned && lane_.starves()) return after(now, plan_patience_);
    return after(now, longest_sleep);
}

// Somebody waits for something in the plan. If the plan's next item is not there because this rank
// does not submit it, and no more of it comes for a while, the order has changed.
void Ensemble::watch_order(const Entry& entry, Clock::time_point now) {
    if (!entry.planned || wants_to_leave_ || !lane_.starves()) return;
    const std::size_t missing = lane_.head().missing;
    if (watched_position_ != lane_.finished() + 1 || watched_missing_ != missing) {
        watched_position_ = lane_.finished() + 1;
        watched_missing_ = missing;
        watched_since_ = now;
        return;
    }
    if (now < after(watched_since_, plan_patience_)) return;
    want_to_leave();
}

Failure Ensemble::too_late(const Entry& entry) const {
    std::string who = "some ranks";
    if (!entry.missing.empty()) {
        const std::string ranks = rank_ranges(entry.missing);
        if (!ranks.empty()) who = "ranks " + ranks;
    }
    return {
        MPIB_ERROR_TIMEOUT,
        fmt::format("rank {}: {} could not be run within {} s, because {} did not submit it, or "
                    "not what comes before it",
                    group_.ranks[static_cast<std::size_t>(group_.own)], described(entry),
                    timeout().count(), who)};
}

}  // namespace mpi_bridge
