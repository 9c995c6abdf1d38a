// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/requests/pending_table.hpp"

#include <algorithm>
#include <utility>

#include "engine/negotiation/requests/bits.hpp"

namespace mpi_bridge {
namespace {

// Further claims about one name are not recorded; two are enough for an error.
constexpr std::size_t most_claims = 8;

}  // namespace

PendingTable::Id PendingTable::find(std::string_view name) const {
    const auto found = ids_.find(std::string(name));
    return found == ids_.end() ? none : found->second;
}

PendingTable::Id PendingTable::add(const std::string& name) {
    Id id = 0;
    if (unused_.empty()) {
        id = static_cast<Id>(records_.size());
        records_.emplace_back();
    } else {
        id = unused_.back();
        unused_.pop_back();
    }
    records_[id] = Record{};
    records_[id].name = name;
    ids_.emplace(name, id);
    return id;
}

PendingTable::Id PendingTable::hear(int member, int global_rank, const NamedRequest& announcement) {
    Id id = find(announcement.name);
    if (id == none) id = add(announcement.name);
    Record& record = records_[id];
    record.settled = false;
    set_bit(record.heard, static_cast<std::size_t>(member));
    auto claim = std::find_if(record.claims.begin(), record.claims.end(), [&](const Claim& other) {
        return other.descriptor == announcement.descriptor;
    });
    if (claim == record.claims.end()) {
        if (record.claims.size() == most_claims) return id;
        claim = record.claims.insert(record.claims.end(), {announcement.descriptor, {}});
    }
    set_bit(claim->ranks, static_cast<std::size_t>(global_rank));
    return id;
}

PendingTable::Id PendingTable::hear_from_all(const NamedRequest& announcement,
                                             const std::vector<int>& global_ranks) {
    Id id = find(announcement.name);
    if (id == none) id = add(announcement.name);
    Record& record = records_[id];
    record.settled = false;
    record.claims.assign(1, {announcement.descriptor, {}});
    record.heard.clear();
    for (int member = 0; member < members_; ++member) {
        set_bit(record.heard, static_cast<std::size_t>(member));
        set_bit(record.claims.front().ranks,
                static_cast<std::size_t>(global_ranks[static_cast<std::size_t>(member)]));
    }
    return id;
}

bool PendingTable::is_complete(Id id, const std::vector<std::uint64_t>& absent) const {
    const Record& record = records_[id];
    if (record.settled || record.claims.empty()) return false;
    for (int member = 0; member < members_; ++member) {
        if (!has_bit(record.heard, static_cast<std::size_t>(member)) &&
            !has_bit(absent, static_cast<std::size_t>(member)))
            return false;
    }
    return true;
}

std::optional<std::string> PendingTable::settle(Id id) {
    Record& record = records_[id];
    const std::vector<Claim> claims = std::exchange(record.claims, {});
    record.heard.clear();
    if (claims.size() > 1) return mismatch_text(record.name, claims);
    record.descriptor = claims.front().descriptor;
    record.settled = true;
    return std::nullopt;
}

std::vector<PendingTable::Id> PendingTable::forget(const std::function<bool(Id)>& kept) {
    if (ids_.size() <= capacity_) return {};
    std::vector<Id> candidates;
    for (Id id = 0; id < records_.size(); ++id) {
        const Record& record = records_[id];
        if (!record.name.empty() && record.claims.empty() && !kept(id)) candidates.push_back(id);
    }
    // Names are forgotten a quarter at a time, because finding them costs more than forgetting
    // them.
    const std::size_t excess = ids_.size() - capacity_ + capacity_ / 4;
    const std::size_t count = std::min(excess, candidates.size());
    std::sort(candidates.begin(), candidates.end(), [&](Id first, Id second) {
        return std::pair(records_[first].last_executed, first) <
               std::pair(records_[second].last_executed, second);
    });
    candidates.resize(count);
    for (const Id id : candidates) {
        ids_.erase(records_[id].name);
        records_[id] = Record{};
        unused_.push_back(id);
    }
    return candidates;
}

}  // namespace mpi_bridge
