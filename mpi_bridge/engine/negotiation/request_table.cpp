// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/request_table.hpp"

namespace mpi_bridge {

RequestTable::Index RequestTable::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? none : found->second;
}

RequestTable::Index RequestTable::add(std::string_view name) {
    Index index = 0;
    if (!unused_.empty()) {
        index = unused_.back();
        unused_.pop_back();
    } else {
        if (requests_.size() == most) return none;
        index = size();
        requests_.emplace_back();
    }
    requests_[index].name = name;
    by_name_.emplace(name, index);
    return index;
}

void RequestTable::link(Index index, PendingTable::Id id) {
    if (by_id_.size() <= id) by_id_.resize(id + 1, none);
    by_id_[id] = index;
    requests_[index].id = id;
}

void RequestTable::unlink(PendingTable::Id id) {
    const Index index = of(id);
    if (index == none) return;
    by_id_[id] = none;
    OwnRequest& request = requests_[index];
    request.id = PendingTable::none;
    request.settled = false;
    request.announced = false;
    request.reported = false;
    if (request.stage == OwnRequest::Stage::free) forget(index);
}

void RequestTable::released(Index index) {
    if (requests_[index].id == PendingTable::none) forget(index);
}

void RequestTable::forget(Index index) {
    by_name_.erase(by_name_.find(requests_[index].name));
    requests_[index] = OwnRequest{};
    unused_.push_back(index);
}

}  // namespace mpi_bridge
