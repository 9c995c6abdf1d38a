// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation_thread.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "core/catching.hpp"
#include "core/open_operations.hpp"
#include "core/quiet_thread.hpp"
#include "engine/negotiation/agreement.hpp"
#include "trace/quoting.hpp"

namespace mpi_bridge {
namespace {

using Lock = ProcessSetState::Lock;

constexpr Seconds keepalive{2};
// How often what is shown to other processes is made anew, at most.
constexpr Seconds between_shows{1};

}  // namespace

NegotiationThread::NegotiationThread(ProcessSetState& state, PlanThread& plan_thread,
                                     DeviceWork& devices)
    : state_(state),
      plan_thread_(plan_thread),
      devices_(devices),
      negotiated_(state, devices),
      stall_watch_(state.host.parts().settings.stall),
      latest_round_(Clock::now()) {}

NegotiationThread::~NegotiationThread() {
    if (thread_.joinable()) thread_.join();
}

void NegotiationThread::start() {
    if (started_) return;
    const Lock lock(state_.mutex);
    if (started_ || state_.member.failure) return;
    thread_ = start_quiet_thread([this] { work(); });
    ended_ = false;
    started_ = true;
}

void NegotiationThread::let_go() {
    if (thread_.joinable()) thread_.join();
    negotiated_.let_go();
    control_.reset();
}

void NegotiationThread::work() {
    rounds();
    devices_.close();
    const Lock lock(state_.mutex);
    if (shows_open_) state_.host.parts().operations->show(state_.process_set, {});
    ended_ = true;
    if (closed_) {
        state_.abandon({MPIB_ERROR_INVALID_ARGUMENT, "the process set was removed"});
        state_.ending = true;
        plan_thread_.wake();
    }
    state_.changed.notify_all();
}

void NegotiationThread::rounds() {
    const auto failed = [this](const Done& done) {
        if (!done) state_.fail(done.error());
        return !done;
    };
    const auto opened = [this]() -> Done {
        control_ = TRY(state_.open(Channel::Lane::control));
        TRY(negotiated_.open(Channel::Lane::negotiated));
        return plan_thread_.open();
    };
    if (failed(opened())) return;
    while (!state_.ending && !closed_) {
        const auto woken =
            control_->next_call([this] { return state_.news || state_.ending; }, next_look());
        if (!woken) {
            if (!state_.ending) state_.fail(woken.error());
            return;
        }
        if (state_.ending) return;
        if (*woken != Communicator::Next::call) {
            say_closed();
            if (closed_) return;
        }
        if (failed(devices_.watch())) return;
        bool keeps_alive = false;
        if (*woken == Communicator::Next::late) keeps_alive = look_for_stalls();
        const bool begins = (has_news() || keeps_alive) && !said_closed_;
        if (*woken != Communicator::Next::call && !begins) continue;
        if (failed(catching([this] { return round(); }))) return;
    }
}

bool NegotiationThread::has_news() {
    const Lock lock(state_.mutex);
    state_.news = false;
    return state_.member.has_news();
}

void NegotiationThread::say_closed() {
    Lock lock(state_.mutex);
    if (!state_.member.retired || !state_.member.idle()) return;
    if (!said_closed_) {
        said_closed_ = true;
        lock.unlock();
        for (const int rank : state_.group.ranks) {
            // A failure that matters has ended everything already, and at the end of the job it
            // makes no difference whether the others hear of it.
            if (rank != state_.member.own_rank())
                (void)state_.host.parts().tell_closed(rank, state_.process_set);
        }
        lock.lock();
    }
    closed_ = state_.closed_members.size() + 1 == state_.group.ranks.size();
}

Done NegotiationThread::round() {
    Trace& trace = state_.trace();
    const Activity activity = state_.shown(Phase::control_round);
    const auto began = Clock::now();
    Lock lock(state_.mutex);
    trace.timeline.begin(activity);
    bool negotiates = true;
    Outcome<Step> step = state_.round.begin();
    while (step && !std::holds_alternative<RoundOver>(*step)) {
        if (negotiates && std::holds_alternative<RunGroup>(*step)) {
            negotiates = false;
            trace.timeline.end(activity);
            trace.counters.add_negotiation(Clock::now() - began);
        }
        const bool had_plan = state_.member.plan.active();
        Step current = std::move(*step);
        step = carry_out(lock, current);
        state_.take_completions();
        for (const auto& [index, rank] : state_.round.heard_from)
            trace.timeline.tick(state_.shown(state_.member.requests.at(index), Phase::negotiate),
                                rank);
        state_.round.heard_from.clear();
        if (had_plan == state_.member.plan.active()) continue;
        const auto epoch = static_cast<std::int64_t>(state_.member.plan.epoch());
        trace.timeline.mark(had_plan ? "plan left" : "plan made", {-1, -1, -1, epoch});
        if (had_plan) {
            trace.counters.add_plan_broken();
        } else {
            trace.counters.add_plan_made();
            plan_thread_.begin();
        }
        state_.changed.notify_all();
    }
    if (negotiates) {
        trace.timeline.end(activity);
        trace.counters.add_negotiation(Clock::now() - began);
    }
    if (!step) return tl::unexpected(step.error());
    latest_round_ = Clock::now();
    closed_ = std::get<RoundOver>(*step).closed;
    state_.news = state_.member.has_news() || state_.member.retired;
    show_open(latest_round_, When::now_and_then);
    if (std::exchange(state_.round.who_heard, false)) report_stalls(lock);
    return {};
}

void NegotiationThread::report_stalls(Lock& lock) {
    const auto now = Clock::now();
    const bool due = std::exchange(asked_who_, false) ||
                     stall_watch_.look(oldest_age(now), now) == StallWatch::Verdict::report;
    if (!due) return;
    const auto text = pending_text(now, state_.host.parts().settings.stall.report);
    lock.unlock();
    if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
}

Outcome<Step> NegotiationThread::carry_out(Lock& lock, Step& step) {
    if (std::holds_alternative<CallTogether>(step)) {
        lock.unlock();
        auto done = call_together(*control_, state_.timeout());
        lock.lock();
        TRY(std::move(done));
        return state_.round.called_together();
    }
    if (auto* const words = std::get_if<ReduceWords>(&step)) return reduce(lock, *words);
    if (const auto* const bytes = std::get_if<GatherBytes>(&step)) return gather(lock, *bytes);
    if (const auto* const stop = std::get_if<StopPlan>(&step)) return stop_plan(lock, *stop);
    return run(lock, std::get<RunGroup>(step));
}

Outcome<Step> NegotiationThread::reduce(Lock& lock, ReduceWords& step) {
    lock.unlock();
    const Activity activity = state_.shown(Phase::verify_plan);
    if (step.verifies_plan) state_.trace().timeline.begin(activity);
    auto done = agree(*control_, step.what, state_.timeout(), step.words);
    if (step.verifies_plan) state_.trace().timeline.end(activity);
    lock.lock();
    TRY(std::move(done));
    return state_.round.reduced(step.words);
}

Outcome<Step> NegotiationThread::gather(Lock& lock, const GatherBytes& step) {
    lock.unlock();
    auto all = gather_bytes(*control_, step.what, state_.timeout(), step.bytes);
    lock.lock();
    return state_.round.gathered(TRY(std::move(all)));
}

Outcome<Step> NegotiationThread::stop_plan(Lock& lock, const StopPlan& step) {
    // The bucket that runs here will end, because all members are in it or are about to enter it.
    state_.changed.wait(lock, [this] { return !state_.member.plan.busy; });
    if (state_.member.plan.started() < step.started) plan_thread_.run_head(lock);
    if (state_.member.failure) return tl::unexpected(*state_.member.failure);
    return state_.round.plan_stopped(Clock::now());
}

Outcome<Step> NegotiationThread::run(Lock& lock, const RunGroup& step) {
    const Descriptor& what = step.group.what;
    const auto now = Clock::now();
    std::vector<OwnRequest*> requests;
    for (const RequestTable::Index index : step.requests) {
        OwnRequest* const request = index == RequestTable::none ? nullptr : &state_.request(index);
        requests.push_back(request);
        if (request == nullptr) continue;
        state_.trace().counters.add_queued(now - request->submitted);
        state_.trace().timeline.begin(state_.shown(*request, Phase::operation),
                                      {static_cast<std::int64_t>(request->bytes), what.datatype});
    }
    const std::uint64_t serial = state_.member.serial;
    lock.unlock();
    const Done done = catching([&] { return run_group(step.group, serial, requests); });
    lock.lock();
    // This counts as progress also if this rank has joined and none of its own operations has
    // ended.
    state_.progress = Clock::now();
    // A change of process sets that fails leaves the order of messages intact. So does an operation
    // that all members, or the devices of all members, refuse alike.
    const bool refused = what.kind == Kind::add_process_set ||
                         what.kind == Kind::remove_process_set ||
                         (requests.front() != nullptr && requests.front()->refusal) ||
                         (what.device && devices_.refused());
    const bool paused = state_.member.plan.frozen;
    auto next = state_.round.group_done(step, done, refused, Clock::now());
    if (paused && !state_.member.plan.frozen) {
        state_.changed.notify_all();
        plan_thread_.wake();
    }
    return next;
}

Done NegotiationThread::run_group(const FusedGroup& group, std::uint64_t serial,
                                  std::span<OwnRequest* const> requests) {
    if (group.what.kind == Kind::add_process_set || group.what.kind == Kind::remove_process_set) {
        requests.front()->result_rows = TRY(state_.host.change_process_sets(group.what));
        return {};
    }
    return negotiated_.run({group.label, serial, state_.timeout()}, group, requests);
}

Seconds NegotiationThread::oldest_age(Clock::time_point now) const {
    Seconds oldest{0};
    for (const OwnRequest& request : state_.member.requests) {
        if (request.free() || request.done() || request.descriptor.kind == Kind::join) continue;
        oldest = std::max(oldest, Seconds(now - request.submitted));
    }
    return oldest;
}

Deadline NegotiationThread::next_look() {
    constexpr Seconds never{3600};
    const Lock lock(state_.mutex);
    const auto now = Clock::now();
    const Seconds oldest = oldest_age(now);
    Seconds wait = stall_watch_.next_look(oldest, now).value_or(never);
    // Operations in the plan start to wait without waking this thread, so it looks now and then.
    if (oldest.count() > 0 || state_.member.plan.active() || shows_open_)
        wait = std::min(wait, oldest < keepalive ? keepalive - oldest : keepalive);
    return Deadline::in(std::max(devices_.until_watch(wait), Seconds(0.001)));
}

// Returns true if it is time for a keepalive round.
bool NegotiationThread::look_for_stalls() {
    Lock lock(state_.mutex);
    const auto now = Clock::now();
    const Seconds oldest = oldest_age(now);
    show_open(now, When::at_once);
    const bool keeps_alive = std::min(oldest, Seconds(now - latest_round_)) >= keepalive;
    switch (stall_watch_.look(oldest, now)) {
        case StallWatch::Verdict::quiet:
            return keeps_alive;
        case StallWatch::Verdict::report:
            state_.member.asks_who = asked_who_ = true;
            return keeps_alive;
        case StallWatch::Verdict::shut_down:
            break;
    }
    const Failure failure{MPIB_ERROR_TIMEOUT,
                          "given up, because operations have waited for longer than "
                          "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS: " +
                              pending_text(now, Seconds(0))};
    lock.unlock();
    state_.fail(failure);
    return false;
}

void NegotiationThread::show_open(Clock::time_point now, When when) {
    OpenOperations* const operations = state_.host.parts().operations;
    const bool soon = when == When::now_and_then && now < next_show_;
    if (operations == nullptr || (soon && !shows_open_)) return;
    const auto is_old = [&](const OwnRequest& request) {
        return !request.free() && !request.done() && Seconds(now - request.submitted) >= keepalive;
    };
    auto& requests = state_.member.requests;
    const bool wanted = std::any_of(requests.begin(), requests.end(), is_old);
    if (wanted && soon) return;
    next_show_ = after(now, between_shows);
    if (!wanted && !shows_open_) return;
    shows_open_ = wanted;
    std::string lines;
    for (const OwnRequest& request : requests) {
        if (!is_old(request) || lines.size() >= sizeof(OperationsTable)) continue;
        const bool joined = request.descriptor.kind == Kind::join;
        lines += fmt::format("{} {} {} {}\n", state_.process_set,
                             joined ? "join" : kind_name(shown_kind(request.descriptor.kind)),
                             request.submitted.time_since_epoch().count(),
                             quoted_for_people(request.name));
    }
    operations->show(state_.process_set, std::move(lines));
}

// Describes the operations of this rank that have waited for at least that long, and the ranks that
// they wait for.
std::string NegotiationThread::pending_text(Clock::time_point now, Seconds at_least) const {
    std::vector<std::vector<std::uint64_t>> missing;  // the masks that `pending` refers to
    std::vector<Pending> pending;
    const RequestTable& requests = state_.member.requests;
    missing.reserve(requests.size());
    for (RequestTable::Index index = 0; index < requests.size(); ++index) {
        const OwnRequest& request = requests.at(index);
        if (request.free() || request.done() || request.descriptor.kind == Kind::join) continue;
        const Seconds age(now - request.submitted);
        if (age < at_least) continue;
        missing.push_back(state_.round.missing(index));
        pending.push_back({request.name, shown_kind(request.descriptor.kind), request.bytes, age,
                           state_.process_set, missing.back()});
    }
    return stall_report(state_.member.own_rank(), pending);
}

}  // namespace mpi_bridge
