// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/host_silence.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace mpi_bridge {

TcpAcknowledgement TcpAcknowledgement::of(int socket) {
    tcp_info info{};
    socklen_t length = sizeof info;
    // Sockets between ranks of one host are not of TCP.
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
    // A living peer answers each probe of a window that is closed.
    return {.missing = info.tcpi_unacked != 0 || info.tcpi_probes != 0,
            .latest = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

Seconds HostSilence::look(const TcpAcknowledgement& seen, Clock::time_point now) {
    const Seconds passed(now - std::exchange(looked_, now));
    const bool was_missing = std::exchange(was_missing_, seen.missing);
    const bool is_silent = was_missing && seen.missing && seen.latest >= passed;
    lasting_ = is_silent ? lasting_ + std::min(passed, longest_step) : Seconds(0);
    return lasting_;
}

}  // namespace mpi_bridge
