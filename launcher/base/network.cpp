// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/network.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace batchai::base {

namespace {

bool is_loopback(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        const auto* const four = reinterpret_cast<const sockaddr_in*>(address);
        return ntohl(four->sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
    }
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(address);
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

struct HostAddress {
    std::string text;  // a number
    bool is_loopback = false;
};

// Returns the addresses of the family that the name resolves to; AF_UNSPEC: of all.
std::vector<HostAddress> addresses(const std::string& name, int family) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
    std::vector<HostAddress> out;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
        std::array<char, NI_MAXHOST> text{};
        if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(),
                        static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST) == 0)
            out.push_back({.text = text.data(), .is_loopback = is_loopback(one->ai_addr)});
    }
    freeaddrinfo(found);
    return out;
}

}  // namespace

std::string address_of(const std::string& node) {
    for (const int family : {AF_INET, AF_INET6}) {
        for (const HostAddress& address : addresses(node, family)) {
            if (!address.is_loopback) return address.text;
        }
    }
    return node;
}

bool is_loopback_only(const std::string& node) {
    const auto found = addresses(node, AF_UNSPEC);
    return !found.empty() && std::all_of(found.begin(), found.end(),
                                         [](const HostAddress& one) { return one.is_loopback; });
}

std::optional<std::string> own_address_towards(const std::string& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    constexpr const char* any_port = "9";
    if (getaddrinfo(address.c_str(), any_port, &hints, &found) != 0 || found == nullptr) return {};
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
    const FileDescriptor probe(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    auto* const generic = reinterpret_cast<sockaddr*>(&own);
    std::array<char, NI_MAXHOST> text{};
    if (!probe.valid() || connect(probe.get(), found->ai_addr, found->ai_addrlen) != 0 ||
        getsockname(probe.get(), generic, &length) != 0 || is_loopback(generic) ||
        getnameinfo(generic, length, text.data(), static_cast<socklen_t>(text.size()), nullptr, 0,
                    NI_NUMERICHOST) != 0)
        return {};
    return std::string(text.data());
}

std::string host_and_port(const std::string& address, int port) {
    const bool is_ipv6 = address.find(':') != std::string::npos;
    return (is_ipv6 ? '[' + address + ']' : address) + ':' + std::to_string(port);
}

namespace {

Knock knock_of(int error) {
    switch (error) {
        case 0:
            return Knock::open;
        case ECONNREFUSED:
            return Knock::refused;
        case EINPROGRESS:
        case EHOSTUNREACH:
        case ETIMEDOUT:
            return Knock::silent;
        default:
            return Knock::unknown;
    }
}

struct Attempt {
    FileDescriptor socket{};        // invalid once the answer is known
    Knock answer = Knock::unknown;  // as long as there is no other: silent
};

Attempt begin_to_connect(const Endpoint& endpoint) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (getaddrinfo(endpoint.address.c_str(), std::to_string(endpoint.port).c_str(), &hints,
                    &found) != 0 ||
        found == nullptr)
        return {};
    Attempt attempt{.socket = FileDescriptor(
                        ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
    if (attempt.socket.valid()) {
        const bool connected =
            connect(attempt.socket.get(), found->ai_addr, found->ai_addrlen) == 0;
        const int error = connected ? 0 : errno;
        attempt.answer = knock_of(error);
        if (error != EINPROGRESS) attempt.socket.reset(-1);
    }
    freeaddrinfo(found);
    return attempt;
}

Knock answer_at(int socket) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return Knock::unknown;
    return knock_of(error);
}

}  // namespace

std::vector<Endpoint> resolved(const Endpoint& endpoint) {
    std::vector<Endpoint> out;
    for (const HostAddress& address : addresses(endpoint.address, AF_UNSPEC))
        out.push_back({.address = address.text, .port = endpoint.port});
    return out;
}

std::vector<Knock> knock(const std::vector<Endpoint>& endpoints,
                         std::chrono::milliseconds patience) {
    using Clock = std::chrono::steady_clock;
    std::vector<Attempt> attempts;
    std::vector<pollfd> waiting;
    for (const Endpoint& endpoint : endpoints) {
        attempts.push_back(begin_to_connect(endpoint));
        waiting.push_back({attempts.back().socket.get(), POLLOUT, 0});
    }
    const auto end = Clock::now() + patience;
    const auto is_open = [](const pollfd& one) { return one.fd >= 0; };
    while (std::any_of(waiting.begin(), waiting.end(), is_open)) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
        if (left.count() <= 0 ||
            ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) < 0)
            break;
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            if (waiting[i].revents == 0) continue;
            attempts[i].answer = answer_at(waiting[i].fd);
            waiting[i].fd = -1;  // poll() leaves it out
        }
    }
    std::vector<Knock> answers;
    for (const Attempt& attempt : attempts)
        answers.push_back(attempt.answer);
    return answers;
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

}  // namespace batchai::base
