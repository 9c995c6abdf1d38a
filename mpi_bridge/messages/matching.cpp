// SPDX-License-Identifier: Apache-2.0
#include "messages/matching.hpp"

#include <algorithm>
#include <utility>

namespace mpi_bridge {
namespace {

bool fits(const Matching::Receive& receive, const Matching::Offer& offer) {
    return (receive.from == Matching::any_rank || receive.from == offer.from) &&
           receive.address == offer.address;
}

}  // namespace

std::optional<Matching::Offer> Matching::post(const Receive& receive) {
    const auto offer = std::find_if(offers_.begin(), offers_.end(),
                                    [&](const Offer& each) { return fits(receive, each); });
    if (offer == offers_.end()) {
        receives_.push_back(receive);
        return std::nullopt;
    }
    Offer taken = std::move(*offer);
    offers_.erase(offer);
    return taken;
}

std::optional<Matching::Receive> Matching::find(const Offer& offer) const {
    const auto receive = std::find_if(receives_.begin(), receives_.end(),
                                      [&](const Receive& each) { return fits(each, offer); });
    return receive == receives_.end() ? std::nullopt : std::optional(*receive);
}

std::optional<Matching::Receive> Matching::hear(const Offer& offer,
                                                std::span<const std::byte> data) {
    auto receive = find(offer);
    if (receive) {
        withdraw(receive->id);
    } else {
        offers_.push_back(offer);
        offers_.back().data.assign(data.begin(), data.end());
    }
    return receive;
}

bool Matching::withdraw(std::int64_t id) {
    return receives_.remove_if([id](const Receive& each) { return each.id == id; }) != 0;
}

void Matching::give_up(int from, std::uint32_t serial) {
    for (Offer& each : offers_) {
        if (each.from != from || each.serial != serial) continue;
        each.withdrawn = true;
        each.data = {};
    }
}

void Matching::forget_offers_of(int rank) {
    offers_.remove_if([rank](const Offer& each) { return each.from == rank; });
}

}  // namespace mpi_bridge
