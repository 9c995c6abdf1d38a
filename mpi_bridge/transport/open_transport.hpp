// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "core/settings.hpp"
#include "core/waits.hpp"
#include "transport/choice/network.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

struct TransportWishes {
    int rank = 0;
    int size = 2;
    int local_size = 1;                           // ranks on this host
    std::string network = "auto";                 // MPI_BRIDGE_NETWORK
    Network host;                                 // network_of_this_host()
    Seconds host_timeout = default_host_timeout;  // as for TcpTransport
    Waits* waits = nullptr;                       // where threads record their waits, or nullptr
    // Publishes this rank's address to all ranks. Collective; called once.
    std::function<Done(std::span<const std::byte>)> publish;
    // Returns the address that a rank published. Called before the first message to or from that
    // rank.
    std::function<Outcome<std::vector<std::byte>>(int rank)> fetch;
};

// Opens the transport of choose_network(), logs one line at level info that says which one it is,
// and publishes its address. If ranks have chosen differently, they notice before their first
// message; the error names both ranks and the remedy.
[[nodiscard]] Outcome<std::unique_ptr<Transport>> open_transport(const TransportWishes& wishes);

}  // namespace mpi_bridge
