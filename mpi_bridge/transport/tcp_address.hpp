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

// An address and a port, of IPv4 or IPv6; or a Unix-domain socket, for the ranks of one host. Its
// name is abstract, so that nothing is left behind in a file system, and random.
struct TcpEndpoint {
    static constexpr const char* own_host = "unix";

    sockaddr_storage storage{};

    // An address in numbers, with port 0, or own_host.
    [[nodiscard]] static Outcome<TcpEndpoint> parse(const std::string& address);

    [[nodiscard]] socklen_t length() const;
    [[nodiscard]] bool is_on_host() const { return storage.ss_family == AF_UNIX; }
    [[nodiscard]] const sockaddr* generic() const {
        return reinterpret_cast<const sockaddr*>(&storage);
    }
    [[nodiscard]] std::string text() const;
};

// Known only to those who may ask the launcher for a rank's address: whoever connects proves that
// it knows that of the rank it calls (TcpHandshake).
using TcpSecret = std::array<std::byte, 16>;

// What a rank publishes: where it listens.
struct TcpAddress {
    TcpSecret secret{};
    std::vector<TcpEndpoint> endpoints;  // the better one first

    [[nodiscard]] std::vector<std::byte> bytes() const;
    [[nodiscard]] static Outcome<TcpAddress> parse(std::span<const std::byte> bytes);
};

[[nodiscard]] Outcome<TcpSecret> make_tcp_secret();

// Whether the process at the other end may be a rank at all: of a Unix-domain socket the kernel
// tells whose process that is, and no other user's is. Of other sockets it tells nothing.
[[nodiscard]] bool may_be_a_rank(int socket);

// Listens on a free port of that address, which is entered into it. Never blocks.
[[nodiscard]] Outcome<FileDescriptor> listen_at(TcpEndpoint& endpoint);

}  // namespace mpi_bridge
