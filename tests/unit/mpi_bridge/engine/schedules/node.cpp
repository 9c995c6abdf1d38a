// SPDX-License-Identifier: Apache-2.0
#include "node.hpp"

#include <utility>
#include <variant>

#include <fmt/format.h>

namespace schedules {

using namespace mpi_bridge;

Node::Node(int rank, std::shared_ptr<ProcessSet> set, Member::Options options, Shared& shared,
           RunChange run_change)
    : rank_(rank),
      set_(std::move(set)),
      own_(static_cast<std::size_t>(options.own)),
      member_(std::move(options)),
      round_(member_),
      shared_(shared),
      run_change_(std::move(run_change)) {}

void Node::add_events(std::vector<Event>& events) {
    if (over_) return;
    if (!head_ && member_.plan.can_run()) events.push_back([this] { start_head(); });
    if (head_ && set_->planned.answer(own_)) events.push_back([this] { end_head(); });
    if (!step_) {
        if (member_.has_news() || set_->control.begun())
            events.push_back([this] { take(round_.begin()); });
        return;
    }
    if (std::holds_alternative<StopPlan>(*step_)) {
        if (!member_.plan.busy) events.push_back([this] { stop_plan(); });
        return;
    }
    Channel& channel = channel_of(*step_);
    if (channel.answer(own_)) events.push_back([this, &channel] { step_done(channel); });
}

void Node::start_head() {
    member_.start_head(head_.emplace());
    Call call{.whole = head_->whole};
    for (const FusedGroup& group : head_->bucket->groups)
        call.contents += fmt::format("{} of {} tensors at {};", group.label, group.ids.size(),
                                     member_.plan.agreement());
    set_->planned.call(own_, std::move(call));
    complete(set_->planned);
}

void Node::end_head() {
    const bool whole = set_->planned.answer(own_)->whole;
    set_->planned.answer(own_).reset();
    for (const FusedGroup& group : head_->bucket->groups)
        if (whole) enqueue(group.what, group.label);
    member_.finish_head(*head_, whole);
    head_.reset();
    if (whole) ++shared_.result.planned;
}

void Node::stop_plan() {
    if (member_.plan.started() < std::get<StopPlan>(*step_).started) {
        start_head();
        return;
    }
    advance(round_.plan_stopped(Clock::time_point()));
}

void Node::step_done(Channel& channel) {
    const Answer answer = std::move(*channel.answer(own_));
    channel.answer(own_).reset();
    const Step step = std::move(*step_);
    if (std::holds_alternative<CallTogether>(step)) {
        advance(round_.called_together());
    } else if (std::holds_alternative<ReduceWords>(step)) {
        const bool had_plan = member_.plan.active();
        advance(round_.reduced(answer.words));
        if (!had_plan && member_.plan.active()) ++shared_.result.plans;
    } else if (std::holds_alternative<GatherBytes>(step)) {
        advance(round_.gathered(answer.bytes));
    } else {
        const auto& run = std::get<RunGroup>(step);
        const Descriptor& what = member_.names.at(run.group.ids.front()).descriptor;
        if (what.kind == Kind::add_process_set) note_plan_at_change(what);
        if (what.kind == Kind::add_process_set || what.kind == Kind::remove_process_set)
            run_change_(Descriptor(what));
        enqueue(what, member_.names.at(run.group.ids.front()).name);
        advance(round_.group_done(run, {}, false, Clock::time_point()));
    }
}

// All members begin to take turns with the new set at the same bucket.
void Node::note_plan_at_change(const Descriptor& change) {
    if (!member_.plan.on_device()) return;
    if (member_.plan.busy) shared_.fault("a set is added while a bucket on device memory runs");
    auto& started = set_->started_at_change[static_cast<int>(change.shape.back())];
    started.insert(member_.plan.started());
    if (started.size() > 1) shared_.fault("ranks add a set at different buckets of their plan");
}

void Node::enqueue(const Descriptor& what, std::string label) {
    if (what.device) set_->enqueued[rank_].push_back(std::move(label));
}

void Node::advance(Outcome<Step> next) {
    if (!next) {
        shared_.fault("a round fails: " + next.error().text);
        return;
    }
    take(std::move(*next));
}

void Node::take(Step step) {
    step_ = std::move(step);
    if (const auto* const over = std::get_if<RoundOver>(&*step_)) {
        if (over->closed) {
            over_ = true;
            member_.abandon({MPIB_ERROR_INVALID_ARGUMENT, "the process set was removed"});
        }
        step_.reset();
        return;
    }
    if (std::holds_alternative<StopPlan>(*step_)) return;
    Channel& channel = channel_of(*step_);
    channel.call(own_, call_of(*step_));
    complete(channel);
}

Call Node::call_of(const Step& step) {
    Call call;
    if (std::holds_alternative<CallTogether>(step)) {
        call.contents = "call together";
    } else if (const auto* const reduce = std::get_if<ReduceWords>(&step)) {
        call.contents = reduce->what;
        call.words = reduce->words;
    } else if (const auto* const gather = std::get_if<GatherBytes>(&step)) {
        call.contents = gather->what;
        call.bytes = gather->bytes;
    } else {
        call = call_of_group(std::get<RunGroup>(step));
    }
    return call;
}

namespace {

std::int64_t elements_or_none(const Descriptor& what) {
    return what.kind == Kind::allgather || what.kind > Kind::join
               ? -1
               : static_cast<std::int64_t>(elements(what));
}

}  // namespace

Call Node::call_of_group(const RunGroup& run) {
    Call call;
    for (const auto id : run.group.ids) {
        const auto& record = member_.names.at(id);
        call.contents += fmt::format("{} {};", record.name, elements_or_none(record.descriptor));
    }
    for (const auto request : run.requests) {
        if (request == RequestTable::none && !member_.joined)
            shared_.fault(fmt::format("rank {} runs {} without a tensor", rank_, call.contents));
    }
    return call;
}

Channel& Node::channel_of(const Step& step) {
    return std::holds_alternative<RunGroup>(step) ? set_->negotiated : set_->control;
}

void Node::complete(Channel& channel) {
    if (auto wrong = channel.complete_if_all_called(); !wrong.empty())
        shared_.fault(std::move(wrong));
}

void Node::fail(const Failure& failure) {
    if (over_) return;
    member_.abandon(failure);
    if (head_) member_.finish_head(*head_, tl::unexpected(failure));
    if (step_) {
        if (const auto* const run = std::get_if<RunGroup>(&*step_))
            static_cast<void>(
                round_.group_done(*run, tl::unexpected(failure), false, Clock::time_point()));
    }
    head_.reset();
    step_.reset();
    over_ = true;
}

std::string Node::where() const {
    if (over_) return {};
    const PlannedOrder& plan = member_.plan;
    return fmt::format("; set of {}: step {}, plan {} started {} finished {}{}{}{}",
                       set_->members.size(), step_ ? static_cast<int>(step_->index()) : -1,
                       plan.active() ? "active" : "none", plan.started(), plan.finished(),
                       plan.busy ? " busy" : "", plan.frozen ? " frozen" : "",
                       member_.has_news() ? " news" : "");
}

}  // namespace schedules
