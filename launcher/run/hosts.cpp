// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/hosts.hpp"

#include <array>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace batchai::run {

namespace {

std::optional<std::string> resolve(const std::string& node, int family) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(node.c_str(), nullptr, &hints, &found) != 0 || found == nullptr)
        return std::nullopt;
    std::array<char, NI_MAXHOST> text{};
    const int code = getnameinfo(found->ai_addr, found->ai_addrlen, text.data(),
                                 static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (code != 0) return std::nullopt;
    return std::string(text.data());
}

}  // namespace

std::string address_of(const std::string& node) {
    if (auto address = resolve(node, AF_INET)) return *address;
    if (auto address = resolve(node, AF_INET6)) return *address;
    return node;
}

std::string host_file(const std::vector<std::string>& addresses, int slots) {
    std::string out;
    for (const std::string& address : addresses)
        out += fmt::format("{0} slots={1} max_slots={1}\n", address, slots);
    return out;
}

std::optional<ReservedPort> ReservedPort::reserve() {
    ReservedPort port;
    port.socket_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (!port.socket_.valid() ||
        setsockopt(port.socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(port.socket_.get(), generic, length) != 0 ||
        getsockname(port.socket_.get(), generic, &length) != 0)
        return std::nullopt;
    port.number_ = ntohs(address.sin_port);
    return port;
}

}  // namespace batchai::run
