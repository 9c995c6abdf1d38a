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
constexpr Seconds longest_engine_sleep{1};
constexpr Seconds longest_plan_patience{1};

tl::unexpected<Failure> interrupted() {
    return fail(MPIB_ERROR_INTERRUPTED, "a signal ended the wait");
}

}  // namespace

ProcessSetEngine::ProcessSetEngine(EngineHost& host, int process_set, std::uint32_t number,
                                   Group group)
    : number_(number),
      state_(host, process_set, std::move(group)),
      devices_(state_),
      plan_thread_(state_, devices_),
      negotiation_(state_, plan_thread_, devices_) {}

Handle ProcessSetEngine::handle_of(Index index) {
    return {.set = number_, .index = index, .generation = state_.request(index).generation};
}

Done ProcessSetEngine::outcome_of(const OwnRequest& request) const {
    if (request.failure) return tl::unexpected(*request.failure);
    return {};
}

// Does what follows from a submission. Requires the lock.
void ProcessSetEngine::submitted(const Member::Submission& submission, Clock::time_point now) {
    OwnRequest& request = state_.request(submission.index);
    request.submitted = now;
    state_.latest_submission = now;
    ++state_.open_operations;
    request.awaited.reset();
    const bool negotiate = submission.negotiate;
    state_.trace().timeline.begin(
        state_.shown(request, negotiate ? Phase::negotiate : Phase::operation));
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
    OwnRequest& request = state_.request(submission.index);
    request.send = static_cast<const std::byte*>(operation.send);
    request.recv = static_cast<std::byte*>(operation.recv);
    request.room = room_of(operation);
    request.refusal.reset();
    request.rows = operation.dimensions == 0 ? 1 : operation.shape[0];
    request.bytes = static_cast<std::size_t>(request.rows) * row_bytes(request.descriptor);
    request.splits.clear();
    if (operation.splits != nullptr)
        request.splits.assign(operation.splits, operation.splits + state_.group.size());
    request.stream = operation.stream;
    request.note = std::move(note);
    request.waited_for = (operation.flags & MPIB_WAITED_FOR) != 0;
    if (request.planned) state_.member.note_length(request);
    if (submission.head_ready) {
        if (state_.sleepers != 0) state_.changed.notify_all();
        plan_thread_.head_is_ready(request);
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
    Interruption interruption(*state_.host.parts().failure, state_.member.own_rank());
    (void)await(lock, handle_of(index), 0, interruption, Leave::must_not);
    const OwnRequest& request = state_.request(index);
    Done done = outcome_of(request);
    if (done && request.descriptor.device) done = devices_.wait(lock, request, 0);
    give_free(index);
    return interruption.asked() ? interrupted() : done;
}

Outcome<int> ProcessSetEngine::change_process_sets(const Descriptor& change) {
    start();
    Lock lock(state_.mutex);
    const auto now = Clock::now();
    const auto submission = TRY(state_.member.submit(change, now));
    submitted(submission, now);
    Interruption interruption(*state_.host.parts().failure, state_.member.own_rank());
    (void)await(lock, handle_of(submission.index), 0, interruption, Leave::must_not);
    const OwnRequest& request = state_.request(submission.index);
    const Done done = interruption.asked() ? interrupted() : outcome_of(request);
    const auto id = static_cast<int>(request.result_rows);
    give_free(submission.index);
    if (!done) return tl::unexpected(done.error());
    return id;
}

std::optional<bool> ProcessSetEngine::poll(const Handle& handle) {
    Lock lock(state_.mutex);
    const OwnRequest* const request = state_.find(handle);
    if (request == nullptr) return std::nullopt;
    if (!request->done()) {
        watch_order(*request, Clock::now());
        return false;
    }
    state_.member.saw_end(handle.index);
    if (request->descriptor.device && !request->failure)
        return devices_.poll(lock, request->ticket);
    return true;
}

Done ProcessSetEngine::wait(const Handle& handle, double seconds) {
    Lock lock(state_.mutex);
    if (state_.find(handle) == nullptr) return unknown_handle();
    Interruption interruption(*state_.host.parts().failure, state_.member.own_rank());
    const bool done = await(lock, handle, seconds, interruption, Leave::may);
    const OwnRequest* const request = state_.find(handle);
    if (request == nullptr)
        return invalid("the handle was released while another thread waited for it");
    if (interruption.asked()) return interrupted();
    if (!done) {
        return fail(MPIB_ERROR_TIMEOUT, fmt::format("{} is not done after {} s, and goes on",
                                                    state_.member.described(*request), seconds));
    }
    state_.member.saw_end(handle.index);
    if (request->descriptor.device && !request->failure)
        return devices_.wait(lock, *request, seconds);
    return outcome_of(*request);
}

Outcome<mpib_result> ProcessSetEngine::result(const Handle& handle) {
    const Lock lock(state_.mutex);
    const OwnRequest* const request = state_.find(handle);
    if (request == nullptr) return unknown_handle();
    if (!request->done()) return invalid(state_.member.described(*request) + " is not done yet");
    mpib_result result{};
    result.struct_bytes = sizeof result;
    const std::byte* const own_memory =
        request->descriptor.device ? request->device_owned.get() : request->owned.data();
    result.data = request->recv == nullptr ? own_memory : request->recv;
    result.rows = request->result_rows;
    result.bytes = static_cast<std::size_t>(request->result_rows) * row_bytes(request->descriptor);
    result.received_rows = request->received_rows.data();
    result.members = static_cast<int>(request->received_rows.size());
    result.last_joined = request->last_joined;
    return result;
}

DeviceTicket ProcessSetEngine::device_ticket(const Handle& handle) {
    const Lock lock(state_.mutex);
    const OwnRequest* const request = state_.find(handle);
    if (request == nullptr || !request->done() || request->failure || !request->descriptor.device)
        return {};
    return request->ticket;
}

Done ProcessSetEngine::release(const Handle& handle) {
    Lock lock(state_.mutex);
    if (state_.find(handle) == nullptr) return unknown_handle();
    Interruption interruption(*state_.host.parts().failure, state_.member.own_rank());
    const bool done = await(lock, handle, 0, interruption, Leave::may);
    if (!done) return interrupted();
    OwnRequest* const request = state_.find(handle);
    if (request == nullptr) return {};
    // The memory must not go back to the stream before the operation has written it. A failure of
    // the wait is ignored here, because mpib_wait() and all later calls report it.
    if (request->device_owned != nullptr) (void)devices_.wait(lock, *request, 0);
    const Memory memory = std::move(request->device_owned);
    if (state_.find(handle) != nullptr) give_free(handle.index);
    lock.unlock();
    return {};
}

void ProcessSetEngine::give_free(Index index) {
    OwnRequest& request = state_.request(index);
    ++request.generation;
    request.failure.reset();
    request.owned = {};
    request.device_owned = nullptr;
    state_.member.release(index);
    if (request.generation == Handle::generations) state_.member.requests.retire(index);
}

bool ProcessSetEngine::can_run_for(const OwnRequest& request) {
    return request.planned && state_.member.plan.can_run();
}

bool ProcessSetEngine::await(Lock& lock, const Handle& handle, double seconds,
                             const Interruption& interruption, Leave leave) {
    std::optional<Clock::time_point> began;
    bool looked = false;
    for (;;) {
        OwnRequest* request = state_.find(handle);
        if (request == nullptr || request->done()) return true;
        const bool bounded = seconds > 0;
        if (can_run_for(*request)) {
            if (!bounded) {
                plan_thread_.run_head(lock);
                state_.trace().counters.add_inline_bucket();
                plan_thread_.hand_over();
                continue;
            }
            // A thread whose wait is bounded must not run the head, because it could not leave
            // before all members have come to it.
            plan_thread_.run_soon();
        }
        const auto now = Clock::now();
        if (!began) began = now;
        // A caller may wait in short pieces, between which it looks for signals.
        if (!request->awaited) request->awaited = now;
        if (!looked) {
            looked = true;
            if (!bounded && await_a_little(lock, handle)) continue;
            request = state_.find(handle);
            if (request == nullptr) return true;
        }
        if (bounded && now >= after(*began, Seconds(seconds))) return false;
        if (interruption.asked() && leave == Leave::may) return false;
        const bool stuck = request->waits();
        const auto limit = after(std::max(*request->awaited, state_.progress), state_.timeout());
        if (stuck && now >= limit) {
            const Failure failure = too_late(handle.index);
            lock.unlock();
            state_.fail(failure);
            lock.lock();
            continue;
        }
        const bool starves = request->planned && state_.member.plan.starves();
        auto until = after(now, starves ? plan_patience() : longest_engine_sleep);
        if (stuck) until = std::min(until, limit);
        if (bounded) until = std::min(until, after(*began, Seconds(seconds)));
        watch_order(*request, now);
        const auto next_look = Interruption::next_look();
        ++state_.sleepers;
        state_.changed.wait_until(lock, std::min(until, next_look));
        --state_.sleepers;
        if (Clock::now() < next_look) continue;
        lock.unlock();
        Interruption::look();
        lock.lock();
    }
}

// Looks a few times, since others may be about to finish. Returns true if something changed.
bool ProcessSetEngine::await_a_little(Lock& lock, const Handle& handle) {
    for (int look = 0; look < yields_before_sleep; ++look) {
        lock.unlock();
        sched_yield();
        lock.lock();
        const OwnRequest* const request = state_.find(handle);
        if (request == nullptr || request->done() || can_run_for(*request)) return true;
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
void ProcessSetEngine::watch_order(const OwnRequest& request, Clock::time_point now) {
    PlannedOrder& plan = state_.member.plan;
    if (!request.planned || state_.member.wants_to_leave || !plan.starves()) return;
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
        if (!negotiation_.over() || !plan_thread_.ended()) return false;
    }
    // All operations have failed and new ones are refused, so nobody runs a collective from now on.
    plan_thread_.let_go();
    negotiation_.let_go();
    return true;
}

void ProcessSetEngine::shutdown(const Failure& cause) {
    {
        const Lock lock(state_.mutex);
        state_.abandon(cause);
        state_.ending = true;
        state_.changed.notify_all();
        plan_thread_.wake();
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
    return state_.changed.wait_until(
        lock, deadline.when(), [this] { return negotiation_.ended() && plan_thread_.ended(); });
}

}  // namespace mpi_bridge
