// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/socket.h>
#include <sys/types.h>

#include "base/error.hpp"

// The kernel's table of TCP sockets, /proc/net/tcp and /proc/net/tcp6, in which every user can see
// whose socket each is.
namespace batchai::visit {

// An address and a port. IPv4 addresses are kept as "::ffff:a.b.c.d", because a connection from an
// IPv6 socket to an IPv4 address is in the table of IPv6 in this form.
struct Endpoint {
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;

    auto operator<=>(const Endpoint&) const = default;
};

[[nodiscard]] Endpoint ipv4(std::uint32_t address, std::uint16_t port);  // 0x7F000001 is 127.0.0.1
[[nodiscard]] Endpoint ipv6_loopback(std::uint16_t port);
[[nodiscard]] bool is_ipv4(const Endpoint& endpoint);
[[nodiscard]] std::optional<Endpoint> endpoint_of(const sockaddr_storage& address);
// Returns the address for connect(2) and its length.
[[nodiscard]] socklen_t socket_address(const Endpoint& endpoint, sockaddr_storage& out);

enum class SocketState : std::uint8_t { listening, connected, other };

struct SocketRow {
    Endpoint local;
    Endpoint remote;
    SocketState state = SocketState::other;
    uid_t uid = 0;
    // 0: no process has the socket any more, or none has it yet. The uid then says nothing.
    std::uint64_t inode = 0;

    bool operator==(const SocketRow&) const = default;
};

// Reads one of the two files. Lines that are not understood are left out.
[[nodiscard]] std::vector<SocketRow> parse_socket_table(std::string_view text);

// Reads both files of this process's network.
[[nodiscard]] base::Result<std::vector<SocketRow>> socket_table();

// Returns the user of the process at the other end of a connection within this host. `own` is our
// end of it and `peer` the other. Returns nothing if no process has that end, or if it cannot be
// found.
[[nodiscard]] std::optional<uid_t> user_of_peer(const std::vector<SocketRow>& rows,
                                                const Endpoint& own, const Endpoint& peer);

// Does the same for an accepted connection, whose other end may be closed and taken by somebody
// else at any time: the answer counts only if the connection is still the same afterwards.
[[nodiscard]] std::optional<uid_t> user_of_peer(int connection);

}  // namespace batchai::visit
