// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <algorithm>

namespace mpi_bridge_scale {

using mpi_bridge::Model;

Network::Network(const Hardware& hardware, int ranks)
    : hardware_(hardware), copying_(static_cast<std::size_t>(ranks)) {
    const std::size_t nodes = node_of(ranks - 1) + 1;
    sending_.resize(nodes);
    receiving_.resize(nodes);
}

Time Network::posting_time(int from, int to) const {
    return model(from, to).alpha * Model::further_message;
}

Network::Event Network::next() {
    const Event event = events_.top();
    events_.pop();
    return event;
}

void Network::move(const Event& event, const Route& route) {
    const Model& costs = model(route.from, route.to);
    const Time latency = costs.alpha * (1 - Model::further_message);
    const Time transfer = static_cast<double>(route.bytes) * costs.beta;
    const auto use = [&](Time& resource) {
        const Time start = std::max(event.time, resource);
        resource = start + transfer;
        return start;
    };
    if (event.kind == Event::Kind::arrive) {
        const Time start = use(receiving_[node_of(route.to)]);
        add(start + transfer, Event::Kind::deliver, event.subject);
    } else if (node_of(route.from) == node_of(route.to)) {
        const Time start = use(copying_[static_cast<std::size_t>(route.from)]);
        add(start + latency + transfer, Event::Kind::deliver, event.subject);
    } else {
        const Time start = use(sending_[node_of(route.from)]);
        add(start + latency, Event::Kind::arrive, event.subject);
    }
}

}  // namespace mpi_bridge_scale
