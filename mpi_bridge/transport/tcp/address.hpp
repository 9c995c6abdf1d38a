// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "core/failure.hpp"
#include "core/file_descriptor.hpp"

namespace mpi_bridge {

// An IPv4 or IPv6 address with a port, or a Unix-domain socket, for the ranks of one host. The name
// of a Unix-domain socket is random, and it is abstract, so that nothing is left behind in a file
// system.
struct TcpEndpoint {
    static constexpr const char* own_host = "unix";

    sockaddr_storage storage{};

    // Takes own_host or a numeric address, to which it gives port 0.
    [[nodiscard]] static Outcome<TcpEndpoint> parse(const std::string& address);

    [[nodiscard]] socklen_t length() const;
    [[nodiscard]] bool is_on_host() const { return storage.ss_family == AF_UNIX; }
    [[nodiscard]] const sockaddr* generic() const {
        return reinterpret_cast<const sockaddr*>(&storage);
    }
    [[nodiscard]] std::string text() const;
};

// Known only to those that may ask the launcher for a rank's address. A caller proves that it knows
// the secret of the rank it calls (TcpHandshake).
using TcpSecret = std::array<std::byte, 16>;

// What a rank publishes: the addresses at which it listens.
struct TcpAddress {
    TcpSecret secret{};
    std::vector<TcpEndpoint> endpoints;  // in order of preference

    [[nodiscard]] std::vector<std::byte> bytes() const;
    [[nodiscard]] static Outcome<TcpAddress> parse(std::span<const std::byte> bytes);
};

[[nodiscard]] Outcome<TcpSecret> make_tcp_secret();

// Whether the process at the other end may be a rank at all. For a Unix-domain socket the kernel
// tells which user owns that process, and only this user's processes may be ranks. For other
// sockets it tells nothing.
[[nodiscard]] bool may_be_a_rank(int socket);

// Listens on a free port of that address and stores the port in `endpoint`. Never blocks.
[[nodiscard]] Outcome<FileDescriptor> listen_at(TcpEndpoint& endpoint);

}  // namespace mpi_bridge
