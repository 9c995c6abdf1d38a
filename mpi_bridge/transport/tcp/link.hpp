// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/group.hpp"

namespace mpi_bridge {

// Two ranks have up to two connections, here called links, and each message has its own by its
// channel. What the engine's negotiation and the messages between two ranks send is limited by
// their protocols and must be read whenever it comes, because it may begin a call of this rank.
// What collectives send has no such limit, and only a receive says how much of it is wanted. On one
// connection, reading the former would mean to keep any amount of the latter.
//
// A link is numbered like the rank at its other end, and those for control follow after all others.
class TcpLinks {
  public:
    enum Kind : int { bulk, control };
    static constexpr int kinds = 2;

    explicit constexpr TcpLinks(int ranks) : ranks_(ranks) {}

    [[nodiscard]] static constexpr Kind kind_for(std::uint32_t channel) {
        const auto lane = Channel::lane_of(channel);
        return lane == Channel::Lane::control || lane == Channel::Lane::messages ? control : bulk;
    }
    [[nodiscard]] constexpr int count() const { return kinds * ranks_; }
    [[nodiscard]] constexpr int to(int rank, Kind kind) const { return rank + kind * ranks_; }
    [[nodiscard]] constexpr int rank(int link) const { return link % ranks_; }
    [[nodiscard]] constexpr Kind kind(int link) const { return link < ranks_ ? bulk : control; }

  private:
    int ranks_;
};

}  // namespace mpi_bridge
