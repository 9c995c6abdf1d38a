// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/plan_making.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace mpi_bridge {

std::vector<Sequenced> choose_planned(const PendingTable& names,
                                      const std::vector<Recorder::Execution>& step) {
    std::set<std::string_view> broken_groups;
    for (const auto& [id, serial] : step) {
        const auto& record = names.at(id);
        if (record.plan_breaks >= most_plan_breaks && !record.descriptor.group.empty())
            broken_groups.insert(record.descriptor.group);
    }
    std::vector<Sequenced> sequence;
    for (const auto& [id, serial] : step) {
        const auto& record = names.at(id);
        const bool broken = record.plan_breaks >= most_plan_breaks ||
                            broken_groups.contains(record.descriptor.group);
        if (!broken && record.settled)
            sequence.push_back(
                {.id = id, .descriptor = &record.descriptor, .serial = serial, .after = 0});
    }
    return sequence;
}

std::vector<PlannedBucket> make_buckets(const PendingTable& names,
                                        const std::vector<Sequenced>& sequence,
                                        BucketLimits limits) {
    std::vector<PlannedBucket> planned;
    for (const Bucket& bucket : arrange(sequence, limits)) {
        PlannedBucket next{.groups = {},
                           .operations = bucket.operations,
                           .bytes = bucket.bytes,
                           .missing = bucket.operations,
                           .filled = {}};
        for (const FusedGroup& fused : bucket.groups) {
            const auto& first = names.at(fused.ids.front());
            PlannedGroup group{.ids = fused.ids,
                               .counts = {},
                               .what = first.descriptor,
                               .label = fmt::format("planned {} \"{}\"",
                                                    name_of(first.descriptor.kind), first.name),
                               .bytes = fused.bytes};
            for (const PendingTable::Id id : fused.ids)
                group.counts.push_back(elements(names.at(id).descriptor));
            if (fused.ids.size() > 1)
                group.label += fmt::format(" and {} more", fused.ids.size() - 1);
            next.groups.push_back(std::move(group));
        }
        planned.push_back(std::move(next));
    }
    return planned;
}

bool PlanGrowth::step_seen() {
    constexpr std::uint64_t most = 1U << 16;
    if (++steps_ < needed_) return false;
    needed_ = std::min(needed_ * 2, most);
    return true;
}

}  // namespace mpi_bridge
