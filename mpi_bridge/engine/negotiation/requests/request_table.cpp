// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/requests/request_table.hpp"

#include <utility>

namespace mpi_bridge {

RequestTable::Index RequestTable::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? none : found->second;
}

RequestTable::Index RequestTable::take_index() {
    if (!unused_.empty()) {
        const Index index = unused_.back();
        unused_.pop_back();
        return index;
    }
    if (requests_.size() == most) return none;
    requests_.emplace_back().generation = first_generation_;
    return size() - 1;
}

RequestTable::Index RequestTable::add(std::string_view name) {
    const Index index = take_index();
    if (index == none) return none;
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
    if (request.state == OwnRequest::State::free) forget(index);
}

void RequestTable::released(Index index) {
    if (requests_[index].id == PendingTable::none) forget(index);
}

void RequestTable::forget(Index index) {
    by_name_.erase(by_name_.find(requests_[index].name));
    clear(index);
    unused_.push_back(index);
}

OwnRequest RequestTable::clear(Index index) {
    OwnRequest fresh;
    fresh.generation = requests_[index].generation;
    return std::exchange(requests_[index], std::move(fresh));
}

void RequestTable::retire(Index index) {
    // Its name may have been forgotten when the request was released.
    if (!unused_.empty() && unused_.back() == index) {
        unused_.pop_back();
        return;
    }
    OwnRequest request = clear(index);
    const Index next = take_index();
    if (request.id != PendingTable::none) by_id_[request.id] = next;
    const auto place = by_name_.find(request.name);
    if (next == none) {
        // There are too many names, as the next request will be told.
        by_name_.erase(place);
        return;
    }
    place->second = next;
    request.generation = requests_[next].generation;
    requests_[next] = std::move(request);
}

}  // namespace mpi_bridge
