// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "transport/network.hpp"

namespace mpi_bridge {

// What messages between hosts go through.
struct NetworkChoice {
    enum class Kind { ucx, tcp };
    Kind kind = Kind::ucx;
    std::string reason;  // a clause for a message
};

// What the user may have said to UCX; empty: nothing.
struct UcxWishes {
    std::string transports;  // UCX_TLS
    std::string devices;     // UCX_NET_DEVICES
};
[[nodiscard]] UcxWishes ucx_wishes();

// `wish` is MPI_BRIDGE_NETWORK: "ucx", "tcp", or "auto", which is the library's own TCP where UCX
// would have nothing better: there are several hosts, and no RDMA port on this one or none that
// UCX_TLS allows. UCX serves the ranks of a single host through shared memory.
[[nodiscard]] NetworkChoice choose_network(std::string_view wish, const Network& network,
                                           const UcxWishes& ucx, bool several_hosts);

// Where the library's own TCP listens.
struct TcpInterface {
    std::vector<std::string> addresses;  // in numbers, IPv4 first
    std::string text;                    // "eth0: …", for a message
};
// The interface that UCX_NET_DEVICES names, else that of choose_devices(), else loopback if all
// ranks are on this host.
[[nodiscard]] Outcome<TcpInterface> choose_tcp_interface(const Network& network,
                                                         const UcxWishes& ucx, bool several_hosts);

// What ranks on several hosts would use, started on this one: "tcp (…), eth0: …", for reports.
[[nodiscard]] std::string network_in_use(std::string_view wish);

}  // namespace mpi_bridge
