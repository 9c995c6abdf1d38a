// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transport/network.hpp"
#include "transport/network_choice.hpp"

namespace mpi_bridge {

// What UCX is to be used for.
struct UcxUse {
    bool several_hosts = true;
    bool named = false;  // MPI_BRIDGE_NETWORK=ucx: over TCP, too
};

// What UCX is to be told. UCX asks nobody who connects to its TCP who they are, and takes from them
// messages that write to any address of the process. So its TCP serves only those who named UCX,
// and never beside RDMA unless they named that, too.
struct UcxChoice {
    std::string transports;  // UCX_TLS; "": as it is
    std::string devices;     // UCX_NET_DEVICES; "": as it is
    std::string text;        // "mlx5_0:1: …", for a message
    bool rdma = false;       // there are RDMA ports
    bool over_tcp = false;   // UCX may open TCP ports
};
[[nodiscard]] UcxChoice choose_ucx(const Network& network, const UcxWishes& wishes, UcxUse use);

}  // namespace mpi_bridge
