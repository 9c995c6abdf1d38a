// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/member.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace mpi_bridge {

Member::Member(Options chosen)
    : options(std::move(chosen)),
      requests(options.first_generation),
      names(static_cast<int>(options.ranks.size()), options.names) {}

std::string Member::described(const OwnRequest& request) const {
    return fmt::format("{} \"{}\"", name_of(request.descriptor.kind), request.name);
}

void Member::reconsider(OwnRequest& request) const {
    request.settled = request.id != PendingTable::none && names.at(request.id).settled &&
                      names.at(request.id).descriptor == request.descriptor;
}

Outcome<Member::Index> Member::claim_name(const mpib_operation& operation) {
    const auto kind = static_cast<Kind>(operation.kind);
    std::string made;
    std::string_view name;
    if (operation.name != nullptr) {
        name = operation.name;
    } else {
        const std::uint64_t count = ++unnamed_.at(static_cast<std::size_t>(operation.kind));
        made = joins_ == 0
                   ? fmt::format("{}{}{}", name_of(kind), counted_name_infix, count)
                   : fmt::format("{}{}{}.{}", name_of(kind), counted_name_infix, joins_, count);
        name = made;
    }
    Index index = requests.find(name);
    if (index == RequestTable::none) {
        index = requests.add(name);
        if (index == RequestTable::none) return invalid("too many operations are in flight");
        OwnRequest& request = requests.at(index);
        request.descriptor = describe(operation);
        if (const auto id = names.find(name); id != PendingTable::none) requests.link(index, id);
        reconsider(request);
        return index;
    }
    OwnRequest& request = requests.at(index);
    if (request.state != OwnRequest::State::free) {
        return invalid(fmt::format(
            "{} \"{}\": the name is in use by an operation whose handle has not been released",
            name_of(kind), name));
    }
    if (!describes(request.descriptor, operation)) {
        request.descriptor = describe(operation);
        reconsider(request);
    }
    return index;
}

Outcome<Member::Submission> Member::submit(const mpib_operation& operation, Clock::time_point now) {
    if (failure) return tl::unexpected(*failure);
    if (retired) return invalid("this rank has closed the process set");
    if (joined)
        return invalid("nothing can be submitted between mpib_join and the join of all ranks");
    const auto index = TRY(claim_name(operation));
    return put_in_line(index, now);
}

Outcome<Member::Submission> Member::submit(const Descriptor& change, Clock::time_point now) {
    if (failure) return tl::unexpected(*failure);
    const std::string name(name_of(change.kind));
    Index index = requests.find(name);
    if (index == RequestTable::none) index = requests.add(name);
    if (index == RequestTable::none) return invalid("too many operations are in flight");
    OwnRequest& request = requests.at(index);
    if (request.state != OwnRequest::State::free || joined)
        return invalid(name + ": another change of process sets, or a join, is under way");
    request.descriptor = change;
    if (const auto id = names.find(name); id != PendingTable::none) requests.link(index, id);
    reconsider(request);
    return put_in_line(index, now);
}

Member::Submission Member::put_in_line(Index index, Clock::time_point now) {
    OwnRequest& request = requests.at(index);
    request.state = OwnRequest::State::waiting;
    request.number = ++submissions_;
    request.after = observed_;
    request.announced = false;
    request.reported = false;
    Submission submission{.index = index};
    const bool joins = request.descriptor.kind == Kind::join;
    if (plan.active() && request.bucket >= 0 && request.settled) {
        request.planned = true;
        uses_plan = true;
        Bucket& bucket = plan.at(request.bucket);
        if (--bucket.missing == 0) {
            bucket.filled = now;
            submission.head_ready = plan.can_run();
        }
        return submission;
    }
    if (joins) joined = true;
    // The plan cannot go on, because this rank now means something else by a planned name, or
    // because it will submit nothing more.
    if (plan.active() && (joins || request.bucket >= 0)) wants_to_leave = true;
    submission.negotiate = true;
    return submission;
}

void Member::note_length(const OwnRequest& request) {
    const Kind kind = request.descriptor.kind;
    if (!has_free_length(kind)) return;
    // As if all members had sent as much.
    const auto parts = kind == Kind::allgather ? options.ranks.size() : 1;
    plan.at(request.bucket).free_bytes += request.bytes * parts;
}

void Member::saw_end(Index index) {
    observed_ = std::max(observed_, requests.at(index).serial);
}

void Member::release(Index index) {
    saw_end(index);
    requests.at(index).state = OwnRequest::State::free;
    requests.released(index);
}

void Member::complete(Index index, std::optional<Failure> with, int last_joined) {
    OwnRequest& request = requests.at(index);
    request.state = OwnRequest::State::done;
    request.planned = false;
    completions.push_back({.index = index, .failure = std::move(with), .last_joined = last_joined});
}

void Member::complete_join(int last) {
    joined = false;
    joined_reported = false;
    ++joins_;
    unnamed_.fill(0);
    for (Index index = 0; index < requests.size(); ++index) {
        OwnRequest& request = requests.at(index);
        if (request.state != OwnRequest::State::waiting) continue;
        if (request.descriptor.kind == Kind::join)
            complete(index, {}, last);
        else
            request.reported = false;
    }
}

void Member::abandon(const Failure& cause) {
    if (!failure) failure = cause;
    plan.frozen = true;
    for (Index index = 0; index < requests.size(); ++index) {
        const OwnRequest& request = requests.at(index);
        if (request.state != OwnRequest::State::waiting) continue;
        complete(index, Failure{failure->status, described(request) + ": " + failure->text});
    }
}

bool Member::has_news() const {
    // Telling it once is enough: every round to come says so again.
    if (closing && !closing_reported) return true;
    if (asks_who || wants_to_leave_plan() || joined != joined_reported) return true;
    for (Index index = 0; index < requests.size(); ++index) {
        const OwnRequest& request = requests.at(index);
        if (request.state != OwnRequest::State::waiting || request.planned) continue;
        if (request.descriptor.kind == Kind::join) continue;
        if (request.settled ? !request.reported : !request.announced) return true;
    }
    return false;
}

bool Member::idle() const {
    if (plan.busy) return false;
    for (Index index = 0; index < requests.size(); ++index) {
        const OwnRequest::State state = requests.at(index).state;
        if (state == OwnRequest::State::waiting || state == OwnRequest::State::running)
            return false;
    }
    return true;
}

void Member::start_head(Head& head) {
    head.bucket = &plan.head();
    head.whole = head.bucket->missing == 0;
    head.requests.clear();
    plan.start();
    for (const FusedGroup& group : head.bucket->groups) {
        for (const PendingTable::Id id : group.ids) {
            const Index index = requests.of(id);
            head.requests.push_back(index);
            if (head.whole) requests.at(index).state = OwnRequest::State::running;
        }
    }
}

void Member::finish_head(const Head& head, const Outcome<bool>& executed) {
    const bool well = executed && *executed;
    plan.finish(well);
    for (const Index index : head.requests) {
        if (!head.whole) break;
        if (well)
            complete(index, requests.at(index).refusal);
        else if (!executed)
            // The first failure explains more than the errors that follow from it here.
            complete(index, failure ? *failure : executed.error());
        else
            requests.at(index).state = OwnRequest::State::waiting;
    }
}

void Member::order_has_changed() {
    if (wants_to_leave) return;
    wants_to_leave = true;
    order_changed = true;
}

// Requests for the plan's names that are already waiting here wait in the plan from now on.
void Member::adopt(std::vector<Bucket> buckets, Clock::time_point now) {
    if (failure) return;
    plan.adopt(std::move(buckets));
    wants_to_leave = joined;
    int number = 0;
    for (const Bucket& bucket : plan.buckets()) {
        for (const FusedGroup& group : bucket.groups) {
            for (const PendingTable::Id id : group.ids) {
                const Index index = requests.of(id);
                if (index == RequestTable::none) continue;
                OwnRequest& request = requests.at(index);
                request.bucket = number;
                if (request.state != OwnRequest::State::waiting) continue;
                if (request.settled) {
                    request.planned = true;
                    uses_plan = true;
                    --plan.at(number).missing;
                    note_length(request);
                } else {
                    wants_to_leave = true;
                }
            }
        }
        ++number;
    }
    plan.head().filled = now;
}

void Member::drop_plan() {
    plan.drop();
    plan.frozen = false;
    wants_to_leave = false;
    order_changed = false;
    for (Index index = 0; index < requests.size(); ++index) {
        OwnRequest& request = requests.at(index);
        request.bucket = -1;
        if (!request.planned) continue;
        request.planned = false;
        request.reported = false;
        request.announced = false;
    }
}

}  // namespace mpi_bridge
