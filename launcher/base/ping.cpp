// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/ping.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

namespace batchai::base {

namespace {

// The limit per call.
constexpr int most_answers = 4096;

}  // namespace

// The kernel fills in the identifier and the checksum, and passes on only answers to this socket.
int Pinger::socket_of(Family& family, int number, int protocol) {
    if (!std::exchange(family.tried, true)) {
        family.socket =
            FileDescriptor(socket(number, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
    }
    return family.socket.get();
}

void Pinger::read_answers(const Family& family, std::set<std::string>& answered) const {
    if (family.socket.get() < 0) return;
    for (int left = most_answers; left > 0; --left) {
        std::array<unsigned char, 64> packet{};
        sockaddr_storage from{};
        socklen_t length = sizeof from;
        const auto bytes = recvfrom(family.socket.get(), packet.data(), packet.size(), 0,
                                    reinterpret_cast<sockaddr*>(&from), &length);
        // An error of an earlier request, such as a host without a route, takes one call.
        if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EBADF)) return;
        if (bytes < static_cast<ssize_t>(sizeof(icmphdr))) continue;
        const bool is_v6 = from.ss_family == AF_INET6;
        if (packet.front() != (is_v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY)) continue;
        std::array<char, INET6_ADDRSTRLEN> text{};
        const void* const address =
            is_v6 ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&from)->sin6_addr)
                  : &reinterpret_cast<sockaddr_in*>(&from)->sin_addr;
        if (inet_ntop(from.ss_family, address, text.data(), text.size()) != nullptr)
            answered.insert(text.data());
    }
}

std::set<std::string> Pinger::ask(const std::vector<std::string>& addresses) {
    std::set<std::string> answered;
    read_answers(v4_, answered);
    read_answers(v6_, answered);
    ++sequence_;
    for (const std::string& address : addresses) {
        sockaddr_in to_v4{};
        sockaddr_in6 to_v6{};
        if (inet_pton(AF_INET, address.c_str(), &to_v4.sin_addr) == 1) {
            to_v4.sin_family = AF_INET;
            icmphdr request{};
            request.type = ICMP_ECHO;
            request.un.echo.sequence = htons(sequence_);
            (void)sendto(socket_of(v4_, AF_INET, IPPROTO_ICMP), &request, sizeof request, 0,
                         reinterpret_cast<const sockaddr*>(&to_v4), sizeof to_v4);
        } else if (inet_pton(AF_INET6, address.c_str(), &to_v6.sin6_addr) == 1) {
            to_v6.sin6_family = AF_INET6;
            icmp6_hdr request{};
            request.icmp6_type = ICMP6_ECHO_REQUEST;
            request.icmp6_seq = htons(sequence_);
            (void)sendto(socket_of(v6_, AF_INET6, IPPROTO_ICMPV6), &request, sizeof request, 0,
                         reinterpret_cast<const sockaddr*>(&to_v6), sizeof to_v6);
        }
    }
    return answered;
}

}  // namespace batchai::base
