// SPDX-License-Identifier: Apache-2.0
//
// A caller that waits runs buckets of the plan where it can, then looks for the end of its
// operation for a short while, and then sleeps.
#include "engine/process_set_engine.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <sched.h>

#include "engine/negotiation/requests/operation_check.hpp"
#include "reduce/reduction.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge {
namespace {

// Some tens of microseconds, about as long as a wake-up takes.
constexpr int yields_before_sleep = 40;
constexpr Seconds longest_sleep{1};
constexpr Seconds longest_plan_patience{1};

}  // namespace

ProcessSetEngine::ProcessSetEngine(EngineHost& host, int process_set, std::uint32_t number,
                                   Group group)
    : number_(number),
      state_(host, process_set, std::move(group)),
      devices_(state_),
      lane_(state_, devices_),
      negotiation_(state_, lane_, devices_) {}

Handle ProcessSetEngine::handle_of(Index index) {
    return {.set = number_, .entry = index, .generation = state_.entry(index).generation};
}

Done ProcessSetEngine::outcome_of(const Entry& entry) const {
    if (entry.failure) return tl::unexpected(*entry.failure);
    return {};
}

// Does what follows from a submission. Requires the lock.
void ProcessSetEngine::submitted(const Member::Submission& submission, Clock::time_point now) {
    if (state_.entries.size() <= submission.index) state_.entries.resize(submission.index + 1);
    Entry& entry = state_.entry(submission.index);
    if (entry.request == nullptr) entry.generation = state_.host.parts().first_generation;
    entry.request = &state_.member.requests.at(submission.index);
    entry.submitted = now;
    entry.awaited.reset();
    const bool negotiate = submission.negotiate;
    state_.trace().timeline.begin(
        state_.shown(*entry.request, negotiate ? Phase::negotiate : Phase::operation));
    if (!negotiate) return;
    state_.news = true;
    // This is safe under the lock: the transport calls back only the `stop` of
    // Communicator::next_call(), which takes no lock.
    state_.host.parts().wake();
}

Outcome<ProcessSetEngine::Index> ProcessSetEngine::enter(const mpib_operation& operation,
                                                         DeviceNote note) {
    const auto now = Clock::now();
    const auto submission = TRY(state_.member.submit(operation, now));
    submitted(submission, now);
    Entry& entry = state_.entry(submission.index);
    entry.send = static_cast<const std::byte*>(operation.send);
    entry.recv = static_cast<std::byte*>(operation.recv);
    entry.room = room_of(operation);
    entry.refused = false;
    entry.rows = operation.dimensions == 0 ? 1 : operation.shape[0];
    entry.bytes = static_cast<std::size_t>(entry.rows) * row_bytes(entry.descriptor());
    entry.splits.clear();
    if (operation.splits != nullptr)
        entry.splits.assign(operation.splits, operation.splits + state_.group.size());
    entry.stream = operation.stream;
    entry.note = std::move(note);
    entry.waited_for = (operation.flags & MPIB_WAITED_FOR) != 0;
    if (submission.head_ready) {
        if (state_.sleepers != 0) state_.changed.notify_all();
        lane_.head_is_ready(entry);
    }
    return submission.index;
}

Outcome<mpib_handle> ProcessSetEngine::submit(const mpib_operation& operation) {
    start();
    auto note = TRY(devices_.admit(operation));
    const Lock lock(state_.mutex);
    const auto index = TRY(enter(operation, std::move(note)));
    return handle_of(index).pack();
}

Done ProcessSetEngine::call(const mpib_operation& operation) {
    start();
    auto note = TRY(devices_.admit(operation));
    Lock lock(state_.mutex);
    const auto index = TRY(enter(operation, std::move(note)));
    (void)await(lock, handle_of(index), 0);
    const Entry& entry = state_.entry(index);
    Done done = outcome_of(entry);
    if (done && entry.descriptor().device) done = devices_.wait(lock, entry, 0);
    give_free(index);
    return done;
}

Outcome<int> ProcessSetEngine::change_process_sets(const Descriptor& change) {
    start();
    Lock lock(state_.mutex);
    const auto now = Clock::now();
    const auto submission = TRY(state_.member.submit(change, now));
    submitted(submission, now);
    (void)await(lock, handle_of(submission.index), 0);
    const Entry& entry = state_.entry(submission.index);
    const Done done = outcome_of(entry);
    const auto id = static_cast<int>(entry.result_rows);
    give_free(submission.index);
    if (!done) return tl::unexpected(done.error());
    return id;
}

std::optional<bool> ProcessSetEngine::poll(const Handle& handle) {
    Lock lock(state_.mutex);
    const Entry* const entry = state_.find(handle);
    if (entry == nullptr) return std::nullopt;
    if (!entry->done()) {
        watch_order(*entry, Clock::now());
        return false;
    }
    state_.member.saw_end(handle.entry);
    if (entry->descriptor().device && !entry->failure) return devices_.poll(lock, entry->ticket);
    return true;
}

Done ProcessSetEngine::wait(const Handle& handle, double seconds) {
    Lock lock(state_.mutex);
    if (state_.find(handle) == nullptr) return unknown_handle();
    const bool done = await(lock, handle, seconds);
    const Entry* const entry = state_.find(handle);
    if (entry == nullptr)
        return invalid("the handle was released while another thread waited for it");
    if (!done) {
        return fail(MPIB_ERROR_TIMEOUT,
                    fmt::format("{} is not done after {} s, and goes on",
                                state_.member.described(*entry->request), seconds));
    }
    state_.member.saw_end(handle.entry);
    if (entry->descriptor().device && !entry->failure) return devices_.wait(lock, *entry, seconds);
    return outcome_of(*entry);
}

Outcome<mpib_result> ProcessSetEngine::result(const Handle& handle) {
    const Lock lock(state_.mutex);
    const Entry* const entry = state_.find(handle);
    if (entry == nullptr) return unknown_handle();
    if (!entry->done())
        return invalid(state_.member.described(*entry->request) + " is not done yet");
    mpib_result result{};
    result.struct_bytes = sizeof result;
    const std::byte* const own_memory =
        entry->descriptor().device ? entry->device_owned.get() : entry->owned.data();
    result.data = entry->recv == nullptr ? own_memory : entry->recv;
    result.rows = entry->result_rows;
    result.bytes = static_cast<std::size_t>(entry->result_rows) * row_bytes(entry->descriptor());
    result.received_rows = entry->received_rows.data();
    result.members = static_cast<int>(entry->received_rows.size());
    result.last_joined = entry->last_joined;
    return result;
}

DeviceTicket ProcessSetEngine::device_ticket(const Handle& handle) {
    const Lock lock(state_.mutex);
    const Entry* const entry = state_.find(handle);
    if (entry == nullptr || !entry->done() || entry->failure || !entry->descriptor().device)
        return {};
    return entry->ticket;
}

Done ProcessSetEngine::release(const Handle& handle) {
    Lock lock(state_.mutex);
    if (state_.find(handle) == nullptr) return unknown_handle();
    (void)await(lock, handle, 0);
    Entry* const entry = state_.find(handle);
    if (entry == nullptr) return {};
    // The memory must not go back to the stream before the operation has written it. A failure of
    // the wait is ignored here, because mpib_wait() and all later calls report it.
    if (entry->device_owned != nullptr) (void)devices_.wait(lock, *entry, 0);
    const Memory memory = std::move(entry->device_owned);
    if (state_.find(handle) != nullptr) give_free(handle.entry);
    lock.unlock();
    return {};
}

void ProcessSetEngine::give_free(Index index) {
    Entry& entry = state_.entry(index);
    ++entry.generation;
    entry.failure.reset();
    entry.owned = {};
    entry.device_owned = nullptr;
    state_.member.release(index);
    if (entry.generation == Handle::generations) {
        state_.member.requests.retire(index);
        entry.request = nullptr;
    }
}

bool ProcessSetEngine::can_run_for(const Entry& entry) {
    return entry.request->planned && state_.member.plan.can_run();
}

// Returns true if the operation is done, and false if `seconds` have passed.
bool ProcessSetEngine::await(Lock& lock, const Handle& handle, double seconds) {
    std::optional<Clock::time_point> began;
    bool looked = false;
    for (;;) {
        Entry* entry = state_.find(handle);
        if (entry == nullptr || entry->done()) return true;
        const bool bounded = seconds > 0;
        if (can_run_for(*entry)) {
            if (!bounded) {
                lane_.run_head(lock);
                lane_.hand_over();
                continue;
            }
            // A thread whose wait is bounded must not run the head, because it could not leave
            // before all members have come to it.
            lane_.wake();
        }
        const auto now = Clock::now();
        if (!began) began = now;
        // A caller may wait in short pieces, between which it looks for signals.
        if (!entry->awaited) entry->awaited = now;
        if (!looked) {
            looked = true;
            if (!bounded && await_a_little(lock, handle)) continue;
            entry = state_.find(handle);
            if (entry == nullptr) return true;
        }
        if (bounded && now >= after(*began, Seconds(seconds))) return false;
        const bool stuck = entry->waits();
        const auto limit = after(std::max(*entry->awaited, state_.progress), state_.timeout());
        if (stuck && now >= limit) {
            const Failure failure = too_late(handle.entry);
            lock.unlock();
            state_.fail(failure);
            lock.lock();
            continue;
        }
        const bool starves = entry->request->planned && state_.member.plan.starves();
        auto until = after(now, starves ? plan_patience() : longest_sleep);
        if (stuck) until = std::min(until, limit);
        if (bounded) until = std::min(until, after(*began, Seconds(seconds)));
        watch_order(*entry, now);
        ++state_.sleepers;
        state_.changed.wait_until(lock, until);
        --state_.sleepers;
    }
}

// Looks a few times, since others may be about to finish. Returns true if something changed.
bool ProcessSetEngine::await_a_little(Lock& lock, const Handle& handle) {
    for (int look = 0; look < yields_before_sleep; ++look) {
        lock.unlock();
        sched_yield();
        lock.lock();
        const Entry* const entry = state_.find(handle);
        if (entry == nullptr || entry->done() || can_run_for(*entry)) return true;
    }
    return false;
}

// Doubles each time a member has asked to leave a plan.
Seconds ProcessSetEngine::plan_patience() const {
    const Seconds first = state_.host.parts().settings.plan_patience;
    return std::min(first * static_cast<double>(1ULL << std::min(state_.member.plans_left, 20)),
                    longest_plan_patience);
}

// Called while a thread waits for an operation of the plan. If the plan's next bucket lacks
// requests of this rank, and no more of them come for a while, the order has changed.
void ProcessSetEngine::watch_order(const Entry& entry, Clock::time_point now) {
    PlannedOrder& plan = state_.member.plan;
    if (!entry.request->planned || state_.member.wants_to_leave || !plan.starves()) return;
    const std::size_t missing = plan.head().missing;
    if (watched_.position != plan.finished() + 1 || watched_.missing != missing) {
        watched_ = {.position = plan.finished() + 1, .missing = missing, .since = now};
        return;
    }
    if (now < after(watched_.since, plan_patience())) return;
    state_.member.order_has_changed();
    state_.news = true;
    state_.host.parts().wake();
}

Failure ProcessSetEngine::too_late(Index index) const {
    std::string who = "some ranks";
    const std::string ranks = rank_ranges(state_.round.missing(index));
    if (!ranks.empty()) who = "ranks " + ranks;
    return {MPIB_ERROR_TIMEOUT,
            fmt::format("rank {}: {} could not be run within {} s, because {} did not submit it, "
                        "or not what comes before it",
                        state_.member.own_rank(),
                        state_.member.described(state_.member.requests.at(index)),
                        state_.timeout().count(), who)};
}

void ProcessSetEngine::close() {
    start();
    const Lock lock(state_.mutex);
    state_.member.close();
    state_.news = true;
    state_.host.parts().wake();
}

void ProcessSetEngine::retire() {
    start();
    const Lock lock(state_.mutex);
    state_.member.retire();
    state_.news = true;
    state_.host.parts().wake();
}

void ProcessSetEngine::member_closed(int rank) {
    const Lock lock(state_.mutex);
    state_.closed_members.insert(rank);
    state_.news = true;
    state_.host.parts().wake();
}

bool ProcessSetEngine::let_go() {
    {
        const Lock lock(state_.mutex);
        if (!negotiation_.over() || !lane_.ended()) return false;
    }
    // All operations have failed and new ones are refused, so nobody runs a collective from now on.
    lane_.let_go();
    negotiation_.let_go();
    return true;
}

void ProcessSetEngine::shutdown(const Failure& cause) {
    {
        const Lock lock(state_.mutex);
        state_.abandon(cause);
        state_.ending = true;
        state_.changed.notify_all();
        lane_.wake();
    }
    state_.host.parts().wake();
}

void ProcessSetEngine::abandon(const Failure& cause) {
    // Done without the lock, because the thread that holds it may be waiting for the device.
    devices_.abandon(cause);
    shutdown(cause);
}

bool ProcessSetEngine::ended(Deadline deadline) {
    Lock lock(state_.mutex);
    return state_.changed.wait_until(lock, deadline.when(),
                                     [this] { return negotiation_.ended() && lane_.ended(); });
}

}  // namespace mpi_bridge
