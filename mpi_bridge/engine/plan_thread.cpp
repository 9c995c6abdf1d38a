// SPDX-License-Identifier: Apache-2.0
#include "engine/plan_thread.hpp"

#include <span>
#include <utility>

#include "core/catching.hpp"
#include "core/floating_point.hpp"
#include "core/quiet_thread.hpp"
#include "engine/negotiation/agreement.hpp"

namespace mpi_bridge {
namespace {

// A thread that submits small tensors usually waits for them right away, and runs them sooner than
// a thread that must be woken. So the plan's thread leaves them alone for a moment. As long as they
// keep coming, it looks for them periodically, which saves the submitters a wake-up each.
constexpr std::chrono::milliseconds poll_interval{1};
constexpr std::chrono::milliseconds polls_after_last{20};

}  // namespace

PlanThread::PlanThread(ProcessSetState& state, DeviceWork& devices)
    : state_(state), execution_(state, devices) {}

PlanThread::~PlanThread() {
    if (thread_.joinable()) thread_.join();
}

Done PlanThread::open() {
    return execution_.open(Channel::Lane::planned);
}

void PlanThread::let_go() {
    if (thread_.joinable()) thread_.join();
    execution_.let_go();
}

void PlanThread::begin() {
    if (!thread_.joinable()) {
        ended_ = false;
        thread_ = start_quiet_thread([this] { work(); });
    }
    work_.notify_one();
}

void PlanThread::run_soon() {
    urgent_ = true;
    work_.notify_one();
}

void PlanThread::head_is_ready(const OwnRequest& submitted) {
    const bool small = state_.member.plan.head().all_bytes() <= small_bucket_bytes;
    const bool waited_for = submitted.waited_for && state_.host.only_one();
    if (!waited_for && !(polls_ && small)) work_.notify_one();
}

Outcome<bool> PlanThread::all_whole(std::string_view label, bool whole) {
    Word word{.mask = whole ? 0U : 1U, .number = state_.member.plan.agreement()};
    TRY(agree(execution_.communicator(), label, state_.timeout(), {&word, 1}));
    return word.mask == 0;
}

// Runs all of a bucket or none of it, on all members alike. Call it without the lock.
Outcome<bool> PlanThread::run_bucket(const Bucket& bucket, bool whole) {
    const std::uint64_t agreement = state_.member.plan.agreement();
    const FusedGroup& first = bucket.groups.front();
    if (bucket.groups.size() == 1 && execution_.host().can_check_in_band(first.what, first.bytes)) {
        return execution_.host().allreduce_if_whole(
            {first.label, agreement, state_.timeout()}, first.what,
            execution_.tensors_of(requests_, first.counts), whole);
    }
    const bool agreed = TRY(all_whole(first.label, whole));
    if (!agreed || first.what.kind == Kind::barrier) return agreed;
    std::size_t at = 0;
    for (const FusedGroup& group : bucket.groups) {
        const auto requests = std::span(requests_).subspan(at, group.ids.size());
        const Done done =
            execution_.run({group.label, agreement, state_.timeout()}, group, requests);
        // What all members refuse alike ends alone.
        if (!done && !requests.front()->refusal) return tl::unexpected(done.error());
        at += group.ids.size();
    }
    return true;
}

void PlanThread::run_head(Lock& lock) {
    state_.member.start_head(head_);
    urgent_ = false;
    requests_.clear();
    for (const RequestTable::Index index : head_.requests) {
        const bool takes_part = head_.whole && index != RequestTable::none;
        requests_.push_back(takes_part ? &state_.request(index) : nullptr);
    }
    lock.unlock();
    auto executed = catching([&] {
        const DefaultFloatingPoint mode;
        return run_bucket(*head_.bucket, head_.whole);
    });
    // The first failure explains more than the errors that follow from it here.
    if (!executed) executed = tl::unexpected(state_.fail(executed.error()));
    lock.lock();
    state_.member.finish_head(head_, executed);
    state_.take_completions();
    if (executed && *executed) state_.trace().counters.add_planned_bucket();
    if (state_.sleepers != 0 || state_.member.plan.frozen) state_.changed.notify_all();
}

void PlanThread::hand_over() {
    PlannedOrder& plan = state_.member.plan;
    if (!plan.can_run()) return;
    if (state_.sleepers != 0) state_.changed.notify_all();
    if (!polls_ || plan.head().all_bytes() > small_bucket_bytes) work_.notify_one();
}

void PlanThread::work() {
    Lock lock(state_.mutex);
    PlannedOrder& plan = state_.member.plan;
    auto last_work = Clock::now();
    while (!state_.ending) {
        const auto now = Clock::now();
        const bool ready = plan.can_run();
        const bool small = ready && plan.head().all_bytes() <= small_bucket_bytes;
        if (ready && (!small || urgent_ || now >= plan.head().filled + poll_interval)) {
            run_head(lock);
            last_work = Clock::now();
            continue;
        }
        if (ready || plan.finished() != polled_at_) last_work = now;
        polled_at_ = plan.finished();
        polls_ = now < last_work + polls_after_last;
        if (polls_)
            work_.wait_for(lock, poll_interval);
        else
            work_.wait(lock);
    }
    polls_ = false;
    ended_ = true;
    state_.changed.notify_all();
}

}  // namespace mpi_bridge
