// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/listening.hpp"

#include <algorithm>
#include <functional>

#include <netinet/in.h>

namespace batchai::visit {

namespace {

using Rows = std::vector<SocketRow>;

// Returns the port as those sockets leave it, or nothing if there are none.
std::optional<Listening> decided_by(const Rows& rows, const Endpoint& place, uid_t user,
                                    const std::function<bool(const SocketRow&)>& concerns) {
    Listening found{.state = PortState::listens, .place = place};
    for (const SocketRow& row : rows) {
        if (!concerns(row)) continue;
        found.inodes.push_back(row.inode);
        if (row.uid != user || row.inode == 0) found.state = PortState::foreign;
    }
    if (found.inodes.empty()) return std::nullopt;
    std::sort(found.inodes.begin(), found.inodes.end());
    return found;
}

}  // namespace

Listening listening_on(std::uint16_t port, const std::vector<SocketRow>& rows, uid_t user) {
    Rows here;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(here), [&](const SocketRow& row) {
        return row.state == SocketState::listening && row.local.port == port;
    });
    const Endpoint loopback = ipv4(INADDR_LOOPBACK, port);
    const Endpoint loopback6 = ipv6_loopback(port);
    const Endpoint any = ipv4(INADDR_ANY, port);
    const Endpoint any6{.address = {}, .port = port};
    const auto at = [](const Endpoint& place) {
        return [place](const SocketRow& row) { return row.local == place; };
    };
    // The kernel prefers a socket that is bound to the very address. One that is bound to all
    // addresses of IPv6 may get connections of IPv4, too, which the table does not show.
    if (auto found = decided_by(here, loopback, user, at(loopback))) return *found;
    const bool has_any = std::any_of(here.begin(), here.end(),
                                     [&](const SocketRow& row) { return row.local == any; });
    if (has_any)
        return decided_by(
                   here, loopback, user,
                   [&](const SocketRow& row) { return row.local == any || row.local == any6; })
            .value_or(Listening{});
    if (auto found = decided_by(here, loopback6, user, at(loopback6))) return *found;
    if (auto found = decided_by(here, loopback6, user, at(any6))) return *found;
    for (const SocketRow& row : here) {
        if (row.uid == user && row.inode != 0)
            return {.state = PortState::listens, .place = row.local, .inodes = {row.inode}};
    }
    return {.state = here.empty() ? PortState::silent : PortState::foreign};
}

}  // namespace batchai::visit
