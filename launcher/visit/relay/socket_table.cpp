// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/socket_table.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::visit {

namespace {

constexpr std::size_t ipv4_begin = 12;
constexpr std::array<std::uint8_t, ipv4_begin> ipv4_prefix{0, 0, 0, 0, 0,    0,
                                                           0, 0, 0, 0, 0xFF, 0xFF};

// The fields of a line that are of interest.
constexpr std::size_t local_field = 1;
constexpr std::size_t remote_field = 2;
constexpr std::size_t state_field = 3;
constexpr std::size_t uid_field = 7;
constexpr std::size_t inode_field = 9;

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (const std::string_view word : base::split(line, ' ')) {
        if (!word.empty()) words.push_back(word);
    }
    return words;
}

// The kernel prints each 32 bits of an address as a number of this machine.
std::optional<Endpoint> parse_endpoint(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon != 8 && colon != 32) return std::nullopt;
    const auto port = base::number_in<std::uint16_t>(text.substr(colon + 1), 16);
    if (!port) return std::nullopt;
    Endpoint endpoint{.address = {}, .port = *port};
    std::size_t at = 0;
    if (colon == 8) {
        std::copy(ipv4_prefix.begin(), ipv4_prefix.end(), endpoint.address.begin());
        at = ipv4_begin;
    }
    for (std::size_t i = 0; i < colon; i += 8, at += 4) {
        const auto number = base::number_in<std::uint32_t>(text.substr(i, 8), 16);
        if (!number) return std::nullopt;
        std::memcpy(&endpoint.address[at], &*number, sizeof *number);
    }
    return endpoint;
}

SocketState state_named(std::string_view text) {
    const auto number = base::number_in<int>(text, 16);
    if (!number) return SocketState::other;
    if (*number == TCP_LISTEN) return SocketState::listening;
    // The end of a connection that its process has half closed is connected as well.
    const bool connected = *number == TCP_ESTABLISHED || *number == TCP_CLOSE_WAIT ||
                           *number == TCP_FIN_WAIT1 || *number == TCP_FIN_WAIT2;
    return connected ? SocketState::connected : SocketState::other;
}

std::optional<SocketRow> parse_row(std::string_view line) {
    const auto words = words_of(line);
    if (words.size() <= inode_field) return std::nullopt;
    const auto local = parse_endpoint(words[local_field]);
    const auto remote = parse_endpoint(words[remote_field]);
    const auto uid = base::number_in<uid_t>(words[uid_field]);
    const auto inode = base::number_in<std::uint64_t>(words[inode_field]);
    if (!local || !remote || !uid || !inode) return std::nullopt;
    return SocketRow{.local = *local,
                     .remote = *remote,
                     .state = state_named(words[state_field]),
                     .uid = *uid,
                     .inode = *inode};
}

bool is_connected(int connection) {
    tcp_info info{};
    socklen_t length = sizeof info;
    return getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
}

}  // namespace

Endpoint ipv4(std::uint32_t address, std::uint16_t port) {
    Endpoint endpoint{.address = {}, .port = port};
    std::copy(ipv4_prefix.begin(), ipv4_prefix.end(), endpoint.address.begin());
    const std::uint32_t bytes = htonl(address);
    std::memcpy(&endpoint.address[ipv4_begin], &bytes, sizeof bytes);
    return endpoint;
}

Endpoint ipv6_loopback(std::uint16_t port) {
    Endpoint endpoint{.address = {}, .port = port};
    endpoint.address.back() = 1;
    return endpoint;
}

bool is_ipv4(const Endpoint& endpoint) {
    return std::equal(ipv4_prefix.begin(), ipv4_prefix.end(), endpoint.address.begin());
}

std::optional<Endpoint> endpoint_of(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET) {
        const auto& four = reinterpret_cast<const sockaddr_in&>(address);
        return ipv4(ntohl(four.sin_addr.s_addr), ntohs(four.sin_port));
    }
    if (address.ss_family != AF_INET6) return std::nullopt;
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    Endpoint endpoint{.address = {}, .port = ntohs(six.sin6_port)};
    std::memcpy(endpoint.address.data(), &six.sin6_addr, endpoint.address.size());
    return endpoint;
}

socklen_t socket_address(const Endpoint& endpoint, sockaddr_storage& out) {
    out = {};
    if (is_ipv4(endpoint)) {
        auto& four = reinterpret_cast<sockaddr_in&>(out);
        four.sin_family = AF_INET;
        four.sin_port = htons(endpoint.port);
        std::memcpy(&four.sin_addr, &endpoint.address[ipv4_begin], sizeof four.sin_addr);
        return sizeof four;
    }
    auto& six = reinterpret_cast<sockaddr_in6&>(out);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(endpoint.port);
    std::memcpy(&six.sin6_addr, endpoint.address.data(), endpoint.address.size());
    return sizeof six;
}

std::vector<SocketRow> parse_socket_table(std::string_view text) {
    std::vector<SocketRow> rows;
    for (const std::string_view line : base::split(text, '\n')) {
        if (const auto row = parse_row(line)) rows.push_back(*row);
    }
    return rows;
}

base::Result<std::vector<SocketRow>> socket_table() {
    std::vector<SocketRow> rows = parse_socket_table(TRY(base::read_file("/proc/net/tcp")));
    // A kernel without IPv6 has no such file.
    const auto six = base::read_file("/proc/net/tcp6");
    if (!six && six.error().exit_code != base::ExitCode::not_found)
        return tl::unexpected<base::Error>(six.error());
    if (six) {
        const auto more = parse_socket_table(*six);
        rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
}

std::optional<uid_t> user_of_peer(const std::vector<SocketRow>& rows, const Endpoint& own,
                                  const Endpoint& peer) {
    for (const SocketRow& row : rows) {
        if (row.local == peer && row.remote == own && row.state == SocketState::connected &&
            row.inode != 0)
            return row.uid;
    }
    return std::nullopt;
}

std::optional<uid_t> user_of_peer(int connection) {
    sockaddr_storage own_address{};
    sockaddr_storage peer_address{};
    socklen_t own_length = sizeof own_address;
    socklen_t peer_length = sizeof peer_address;
    if (getsockname(connection, reinterpret_cast<sockaddr*>(&own_address), &own_length) != 0 ||
        getpeername(connection, reinterpret_cast<sockaddr*>(&peer_address), &peer_length) != 0)
        return std::nullopt;
    const auto own = endpoint_of(own_address);
    const auto peer = endpoint_of(peer_address);
    if (!own || !peer) return std::nullopt;
    const auto rows = socket_table();
    if (!rows) return std::nullopt;
    const auto user = user_of_peer(*rows, *own, *peer);
    // As long as our end is connected, nobody else can have had the other end since accept(2).
    return is_connected(connection) ? user : std::nullopt;
}

}  // namespace batchai::visit
