// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "transport/network.hpp"

namespace mpi_bridge {

// What messages between ranks go through.
struct NetworkChoice {
    enum class Kind { ucx, tcp };
    Kind kind = Kind::tcp;
    std::string reason;  // a clause for a message
};

// What the user may have said to UCX; empty: nothing.
struct UcxWishes {
    std::string transports;  // UCX_TLS
    std::string devices;     // UCX_NET_DEVICES
};
[[nodiscard]] UcxWishes ucx_wishes();

// `wish` is MPI_BRIDGE_NETWORK: "ucx", "tcp", or "auto", which is UCX where there are several hosts
// and RDMA ports on this one that UCX_TLS allows, and else the library's own sockets.
[[nodiscard]] NetworkChoice choose_network(std::string_view wish, const Network& network,
                                           const UcxWishes& ucx, bool several_hosts);

// The same for this host and its environment, where UCX may lack what it takes to use an RDMA port:
// its module, or a container's access to the device.
[[nodiscard]] NetworkChoice choose_network_here(std::string_view wish, const Network& network,
                                                bool several_hosts);

// Whether any of UCX's transports of these names is one between hosts, other than its TCP.
[[nodiscard]] bool any_reaches_other_hosts(const std::vector<std::string>& transports);

// Where the library's own sockets listen.
struct TcpInterface {
    std::vector<std::string> addresses;  // as TcpEndpoint::parse() takes them, IPv4 first
    std::string text;                    // "eth0: …", for a message
};
// The interface that UCX_NET_DEVICES names, else that of choose_interface(). If all ranks are on
// this host, no interface but a Unix-domain socket, to which no other host can connect.
[[nodiscard]] Outcome<TcpInterface> choose_tcp_interface(const Network& network,
                                                         const UcxWishes& ucx, bool several_hosts);

// What ranks on several hosts would use, started on this one: "tcp (…), eth0: …", for reports.
[[nodiscard]] std::string network_in_use(std::string_view wish);

// The items of a list such as "rc,tcp,self".
[[nodiscard]] std::vector<std::string> comma_separated(std::string_view list);

}  // namespace mpi_bridge
