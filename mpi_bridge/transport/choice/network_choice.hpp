// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "transport/choice/network.hpp"

namespace mpi_bridge {

// The transport for messages between ranks.
struct NetworkChoice {
    enum class Kind { ucx, tcp };
    Kind kind = Kind::tcp;
    std::string reason;  // a clause for a message
};

// What the user has set for UCX; empty: nothing.
struct UcxWishes {
    std::string transports;  // UCX_TLS
    std::string devices;     // UCX_NET_DEVICES
};
[[nodiscard]] UcxWishes ucx_wishes();

// `wish` is MPI_BRIDGE_NETWORK: "ucx", "tcp" or "auto". "auto" means UCX if the ranks are on
// several hosts and this host has RDMA ports that UCX_TLS allows; otherwise it means the library's
// own sockets.
[[nodiscard]] NetworkChoice choose_network(std::string_view wish, const Network& network,
                                           const UcxWishes& ucx, bool several_hosts);

// The same for this host and its environment. UCX may lack something that it needs to use an RDMA
// port: its module, or a container's access to the device.
[[nodiscard]] NetworkChoice choose_network_here(std::string_view wish, const Network& network,
                                                bool several_hosts);

// Whether any of these UCX transports connects hosts, other than UCX's TCP.
[[nodiscard]] bool any_reaches_other_hosts(const std::vector<std::string>& transports);

// The addresses at which the library's own sockets listen.
struct TcpInterface {
    std::vector<std::string> addresses;  // as TcpEndpoint::parse() takes them, IPv4 first
    std::string text;                    // "eth0: …", for a message
};
// The interface that UCX_NET_DEVICES names, or else that of choose_interface(). If all ranks are on
// this host, it is not an interface but a Unix-domain socket, to which no other host can connect.
[[nodiscard]] Outcome<TcpInterface> choose_tcp_interface(const Network& network,
                                                         const UcxWishes& ucx, bool several_hosts);

// What ranks on several hosts would use if they were started on this one: "tcp (…), eth0: …", for
// reports.
[[nodiscard]] std::string network_in_use(std::string_view wish);

}  // namespace mpi_bridge
