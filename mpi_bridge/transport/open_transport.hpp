// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

struct TransportWishes {
    int rank = 0;
    int size = 2;
    int local_size = 1;            // ranks on this host
    std::string network = "auto";  // MPI_BRIDGE_NETWORK
    // Makes this rank's address known to all; collective, once.
    std::function<Done(std::span<const std::byte>)> publish;
    // The address that a rank published. Asked when the rank is first talked with.
    std::function<Outcome<std::vector<std::byte>>(int rank)> fetch;
};

// Opens the transport of choose_network(), says in one line of level info which that is, and
// publishes its address. Ranks that chose differently find out when they first talk: an error that
// names both ranks and the remedy.
[[nodiscard]] Outcome<std::unique_ptr<Transport>> open_transport(const TransportWishes& wishes);

}  // namespace mpi_bridge
