// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "visit/relay/frames.hpp"
#include "visit/relay/socket_table.hpp"

namespace batchai::visit {

// What listens on a port of this host, as seen from this host.
struct Listening {
    PortState state = PortState::silent;
    Endpoint place{};                     // where to connect to, if it is a process of the user's
    std::vector<std::uint64_t> inodes{};  // of the sockets that may get the connection

    bool operator==(const Listening&) const = default;
};

// Finds who gets a connection to the port on the loopback address or, if nobody listens there, on
// another address on which a process of the user's listens. If another user's process could get it,
// the port is foreign.
[[nodiscard]] Listening listening_on(std::uint16_t port, const std::vector<SocketRow>& rows,
                                     uid_t user);

}  // namespace batchai::visit
