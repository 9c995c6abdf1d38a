// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/plan/plan_making.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace mpi_bridge {

std::vector<Sequenced> choose_planned(const PendingTable& names,
                                      const std::vector<Recorder::Execution>& step) {
    const auto fits = [](const PendingTable::Record& record) {
        return record.settled && record.plan_breaks < most_plan_breaks;
    };
    // The requests of a named group wait for each other, so they are planned together or not at
    // all.
    std::map<std::string_view, int> groups;
    for (const auto& [id, serial] : step) {
        const auto& record = names.at(id);
        if (fits(record)) ++groups[record.descriptor.group];
    }
    std::vector<Sequenced> sequence;
    for (const auto& [id, serial] : step) {
        const auto& record = names.at(id);
        const Descriptor& what = record.descriptor;
        const bool whole = what.group.empty() || groups[what.group] == what.group_size;
        if (fits(record) && whole)
            sequence.push_back({.id = id,
                                .descriptor = &record.descriptor,
                                .serial = serial,
                                .after = 0,
                                .name = record.name});
    }
    return sequence;
}

std::vector<Bucket> make_buckets(const std::vector<Sequenced>& sequence, BucketLimits limits) {
    std::vector<Bucket> buckets = arrange(sequence, limits);
    for (Bucket& bucket : buckets) {
        bucket.missing = bucket.operations;
        for (FusedGroup& group : bucket.groups)
            group.label.insert(0, "planned ");
    }
    return buckets;
}

bool PlanGrowth::step_seen(bool used) {
    constexpr std::uint64_t most = 1U << 16;
    constexpr std::uint64_t most_unused = 16;
    unused_steps_ = used ? 0 : unused_steps_ + 1;
    if (unused_steps_ >= unused_needed_) {
        unused_needed_ = std::min(unused_needed_ * 2, most_unused);
        return true;
    }
    if (++steps_ < needed_) return false;
    needed_ = std::min(needed_ * 2, most);
    return true;
}

}  // namespace mpi_bridge
