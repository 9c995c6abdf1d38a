// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/plan_change.hpp"

#include <utility>

#include "engine/negotiation/requests/named_request.hpp"

namespace mpi_bridge {

PlanChange::Next PlanChange::next() {
    auto step = member_.recorder.step();
    if (!step) return Next::nothing;
    sequence_ = choose_planned(member_.names, *step);
    if (!member_.plan.active()) {
        member_.recorder.restart();
        return sequence_.empty() ? Next::nothing : Next::verify;
    }
    member_.recorder.restart_after_step();
    const bool used = std::exchange(used_, false);
    return sequence_.empty() || !growth_.step_seen(used) ? Next::nothing : Next::leave;
}

std::vector<Word> PlanChange::proposal() {
    std::vector<NamedRequest> contents;
    std::vector<Word> words(sequence_.size() + 2);
    for (std::size_t at = 0; at < sequence_.size(); ++at) {
        const auto& record = member_.names.at(sequence_[at].id);
        contents.push_back({record.name, record.descriptor});
        const RequestTable::Index index = member_.requests.of(sequence_[at].id);
        words[at].number =
            index == RequestTable::none ? 0 : member_.requests.at(index).executed_after;
    }
    digest_ = digest_of(encode(contents));
    words[sequence_.size()].number = digest_;
    words[sequence_.size() + 1].number = ~digest_;
    return words;
}

Done PlanChange::adopt(const std::vector<Word>& words, Clock::time_point now) {
    const std::size_t count = sequence_.size();
    if (words[count].number != digest_ || words[count + 1].number != ~digest_)
        return fail(MPIB_ERROR_INTERNAL, "ranks have recorded different plans");
    for (std::size_t at = 0; at < count; ++at)
        sequence_[at].after = words[at].number;
    growth_.restart();
    used_ = false;
    member_.adopt(make_buckets(sequence_, member_.options.limits), now);
    return {};
}

std::vector<Word> PlanChange::objections() const {
    std::vector<Word> words(1 + (member_.names.size() + 63) / 64);
    PlannedOrder& plan = member_.plan;
    if (!member_.order_changed || plan.busy || plan.head().missing == 0) return words;
    for (const FusedGroup& group : plan.head().groups) {
        for (const PendingTable::Id id : group.ids) {
            const RequestTable::Index index = member_.requests.of(id);
            if (index == RequestTable::none || !member_.requests.at(index).planned)
                words[1 + id / 64].mask |= std::uint64_t{1} << (id % 64);
        }
    }
    return words;
}

void PlanChange::leave(const std::vector<Word>& objections, bool asked) {
    member_.drop_plan();
    for (PendingTable::Id id = 0; id < member_.names.size(); ++id) {
        if ((objections[1 + id / 64].mask >> (id % 64) & 1) != 0) member_.names.plan_broken_by(id);
    }
    member_.recorder.restart();
    growth_.restart();
    if (asked) ++member_.plans_left;
}

}  // namespace mpi_bridge
