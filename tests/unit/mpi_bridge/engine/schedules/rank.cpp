// SPDX-License-Identifier: Apache-2.0
#include "rank.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace schedules {

using namespace mpi_bridge;

Rank::Rank(int number, Shared& shared) : number_(number), shared_(shared) {
    join_set(0);
    begin_phase();
}

void Rank::join_set(int set) {
    const auto& process_set = shared_.sets[set];
    const Program& program = shared_.program;
    Member::Options options;
    options.ranks = process_set->members;
    options.own = static_cast<int>(std::find(options.ranks.begin(), options.ranks.end(), number_) -
                                   options.ranks.begin());
    options.limits = {program.first_bucket, program.other_buckets};
    options.names = program.names;
    auto node = std::make_shared<Node>(number_, process_set, std::move(options), shared_,
                                       [this](const Descriptor& change) { run_change(change); });
    nodes_[set] = node;
    all_.push_back(std::move(node));
}

void Rank::begin_phase() {
    threads_.clear();
    if (program_over()) return;
    for (const Thread& thread : phases()[phase_]) {
        threads_.emplace_back();
        threads_.back().thread = &thread;
    }
}

void Rank::add_events(std::vector<Event>& events, std::vector<Event>& late) {
    add_thread_events(events, late);
    for (const auto& node : all_)
        node->add_events(events);
    if (shared_.somebody_lost && !failed_) late.push_back([this] { notice_loss(); });
}

void Rank::add_thread_events(std::vector<Event>& events, std::vector<Event>& late) {
    if (program_over()) return;
    bool all_ended = true;
    for (ThreadState& thread : threads_) {
        if (thread.at == thread.thread->size()) continue;
        all_ended = false;
        const Operation& next = (*thread.thread)[thread.at];
        if (can_do(thread, next)) {
            events.push_back([this, &thread, &next] { carry_out(thread, next); });
        } else if (waits_in_vain(thread, next)) {
            late.push_back(
                [&thread, &next] { find(thread, next)->node->member().order_has_changed(); });
        }
    }
    if (all_ended) {
        events.push_back([this] {
            ++phase_;
            begin_phase();
        });
    }
}

void Rank::collect_completions() {
    for (const auto& node : all_) {
        for (Completion& each : node->member().completions)
            ended_[{node.get(), each.index}] = std::move(each.failure);
        node->member().completions.clear();
    }
}

const Rank::InFlight* Rank::find(const ThreadState& thread, const Operation& one) {
    for (const InFlight& each : thread.in_flight) {
        if (each.set == one.set && each.name == one.name) return &each;
    }
    return nullptr;
}

bool Rank::has_ended(const InFlight& one) const {
    return ended_.contains({one.node.get(), one.index});
}

bool Rank::can_do(const ThreadState& thread, const Operation& next) const {
    if (next.what == Operation::What::submit) return true;
    if (next.what == Operation::What::wait) {
        const InFlight* const one = find(thread, next);
        return one == nullptr || has_ended(*one);
    }
    return !thread.change || has_ended(*thread.change);
}

bool Rank::waits_in_vain(const ThreadState& thread, const Operation& next) {
    const InFlight* const one = next.what == Operation::What::wait ? find(thread, next) : nullptr;
    if (one == nullptr) return false;
    Member& member = one->node->member();
    return member.requests.at(one->index).planned && !member.wants_to_leave &&
           member.plan.starves();
}

void Rank::carry_out(ThreadState& thread, const Operation& next) {
    switch (next.what) {
        case Operation::What::submit:
            submit(thread, next);
            ++thread.at;
            return;
        case Operation::What::wait:
            wait(thread, next);
            ++thread.at;
            return;
        default:
            if (thread.change) {
                end_change(thread);
            } else {
                begin_change(thread, next);
            }
    }
}

void Rank::submit(ThreadState& thread, const Operation& next) {
    const auto node = nodes_.find(next.set);
    const int occurrence = ++occurrences_[{next.set, next.name}];
    if (node == nodes_.end()) {
        // The set could not be added, because a rank was lost.
        shared_.outcomes[{next.set, next.name, occurrence}].insert(MPIB_ERROR_PEER_LOST);
        return;
    }
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = next.kind;
    operation.name = next.name.c_str();
    operation.shape = &next.count;
    operation.dimensions = 1;
    operation.datatype = MPIB_FLOAT32;
    operation.flags = next.device ? MPIB_DEVICE : 0;
    operation.group = next.group.empty() ? nullptr : next.group.c_str();
    operation.group_size = next.group_size;
    operation.root = node->second->first_member();
    const auto submission = node->second->member().submit(operation, Clock::time_point());
    if (!submission) {
        shared_.outcomes[{next.set, next.name, occurrence}].insert(submission.error().status);
        if (!shared_.somebody_lost)
            shared_.fault("a submission is refused: " + submission.error().text);
        return;
    }
    thread.in_flight.push_back({next.set, next.name, node->second, submission->index, occurrence});
}

void Rank::wait(ThreadState& thread, const Operation& next) {
    const InFlight* const one = find(thread, next);
    if (one == nullptr) return;
    const InFlight done = *one;
    std::erase_if(thread.in_flight, [&](const InFlight& each) {
        return each.set == done.set && each.name == done.name;
    });
    note_end(done);
}

void Rank::note_end(const InFlight& one) {
    const auto found = ended_.find({one.node.get(), one.index});
    const auto& failure = found->second;
    shared_.outcomes[{one.set, one.name, one.occurrence}].insert(failure ? failure->status
                                                                         : MPIB_OK);
    if (failure && failure->status != MPIB_ERROR_PEER_LOST && shared_.program.all_succeed)
        shared_.fault("a request fails: " + failure->text);
    ended_.erase(found);
    one.node->member().saw_end(one.index);
    one.node->member().release(one.index);
}

void Rank::begin_change(ThreadState& thread, const Operation& next) {
    const auto& world = nodes_[0];
    Descriptor change;
    change.kind =
        next.what == Operation::What::add_set ? Kind::add_process_set : Kind::remove_process_set;
    change.shape.assign(next.ranks.begin(), next.ranks.end());
    change.shape.push_back(next.set);
    const auto submission = world->member().submit(change, Clock::time_point());
    if (!submission) {
        if (!shared_.somebody_lost)
            shared_.fault("a change is refused: " + submission.error().text);
        ++thread.at;
        return;
    }
    thread.change = InFlight{0, {}, world, submission->index, 0};
}

void Rank::end_change(ThreadState& thread) {
    const auto found = ended_.find({thread.change->node.get(), thread.change->index});
    const bool well = !found->second;
    ended_.erase(found);
    Member& world = thread.change->node->member();
    world.saw_end(thread.change->index);
    world.release(thread.change->index);
    thread.change.reset();
    ++thread.at;
    if (!well && !shared_.somebody_lost) shared_.fault("a change of process sets fails");
}

void Rank::run_change(const Descriptor& change) {
    const int set = static_cast<int>(change.shape.back());
    if (change.kind == Kind::remove_process_set) {
        const auto node = nodes_.find(set);
        if (node == nodes_.end()) return;
        node->second->member().close();
        nodes_.erase(node);
        return;
    }
    const std::vector<int> members(change.shape.begin(), change.shape.end() - 1);
    if (!shared_.sets.contains(set)) shared_.sets[set] = std::make_shared<ProcessSet>(members);
    if (std::find(members.begin(), members.end(), number_) != members.end()) join_set(set);
}

void Rank::notice_loss() {
    failed_ = true;
    const Failure failure{MPIB_ERROR_PEER_LOST,
                          fmt::format("lost rank {}", shared_.program.lost_rank)};
    for (const auto& node : all_)
        node->fail(failure);
}

std::string Rank::where() const {
    std::string text =
        fmt::format("\n  rank {}: phase {}{}", number_, phase_, lost_ ? ", lost" : "");
    for (const ThreadState& thread : threads_) {
        if (thread.at != thread.thread->size())
            text += fmt::format(", at {} ({})", thread.at, (*thread.thread)[thread.at].name);
    }
    for (const auto& node : all_)
        text += node->where();
    return text;
}

}  // namespace schedules
