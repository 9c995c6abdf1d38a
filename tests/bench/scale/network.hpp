// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "collectives/select/model.hpp"

namespace mpi_bridge_scale {

using Time = double;  // virtual, in seconds

// The hardware that is modelled: nodes with `ranks_per_node` ranks each, in the order of the ranks,
// and one network interface. An interface sends one byte after the other, and at the same time
// receives one byte after the other; each takes beta. The network between the interfaces is never
// the bottleneck. A message leaves its sender when that has spent Model::further_message * alpha on
// posting it, and its first byte is at the other interface the rest of alpha later. Messages inside
// a node cost what the model `inside` says, and only their sender's time.
struct Hardware {
    mpi_bridge::Model between;
    mpi_bridge::Model inside;
    int ranks_per_node = 1;
};

// Carries messages through virtual time. Knows them by number only.
class Network {
  public:
    struct Event {
        enum class Kind { resume_rank, inject, arrive, deliver };
        Time time = 0;
        std::uint64_t order = 0;  // of events at the same time: that of their making
        Kind kind = Kind::resume_rank;
        std::size_t subject = 0;  // a rank or a message
    };

    Network(const Hardware& hardware, int ranks);

    // What the sender spends on posting a message.
    [[nodiscard]] Time posting_time(int from, int to) const;

    void resume_at(Time time, int rank) {
        add(time, Event::Kind::resume_rank, static_cast<std::size_t>(rank));
    }
    // The sender has posted a message.
    void inject_at(Time time, std::size_t message) { add(time, Event::Kind::inject, message); }

    [[nodiscard]] bool idle() const { return events_.empty(); }
    // The next event; events that concern nobody but the network are dealt with by move().
    [[nodiscard]] Event next();

    // Moves a message on from `event`, which is an injection or an arrival.
    struct Route {
        int from = 0;
        int to = 0;
        std::size_t bytes = 0;
    };
    void move(const Event& event, const Route& route);

  private:
    struct Later {
        bool operator()(const Event& a, const Event& b) const {
            return a.time != b.time ? a.time > b.time : a.order > b.order;
        }
    };
    void add(Time time, Event::Kind kind, std::size_t subject) {
        events_.push({time, made_++, kind, subject});
    }
    [[nodiscard]] std::size_t node_of(int rank) const {
        return static_cast<std::size_t>(rank / hardware_.ranks_per_node);
    }
    [[nodiscard]] const mpi_bridge::Model& model(int from, int to) const {
        return node_of(from) == node_of(to) ? hardware_.inside : hardware_.between;
    }

    Hardware hardware_;
    std::priority_queue<Event, std::vector<Event>, Later> events_;
    std::uint64_t made_ = 0;
    // When each is free again.
    std::vector<Time> sending_;    // of a node's interface
    std::vector<Time> receiving_;  // of a node's interface
    std::vector<Time> copying_;    // of a rank
};

}  // namespace mpi_bridge_scale
