// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transport/choice/network.hpp"
#include "transport/choice/network_choice.hpp"

namespace mpi_bridge {

// The purpose that UCX is to serve.
struct UcxUse {
    bool several_hosts = true;
    bool named = false;  // MPI_BRIDGE_NETWORK=ucx: UCX may use TCP, too
};

// The settings for UCX. UCX does not authenticate the processes that connect to its TCP, and
// accepts messages from them that write to any address of the process. So its TCP is used only if
// the user has named UCX, and beside RDMA only if the user has named TCP, too.
struct UcxChoice {
    std::string transports;  // UCX_TLS; "": unchanged
    std::string devices;     // UCX_NET_DEVICES; "": unchanged
    std::string text;        // "mlx5_0:1: …", for a message
    bool rdma = false;       // there are RDMA ports
    bool over_tcp = false;   // UCX may open TCP ports
};
[[nodiscard]] UcxChoice choose_ucx(const Network& network, const UcxWishes& wishes, UcxUse use);

}  // namespace mpi_bridge
