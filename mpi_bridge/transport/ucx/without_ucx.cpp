// SPDX-License-Identifier: Apache-2.0
//
// In place of devices.cpp, network.cpp, peers.cpp and transport.cpp, which call UCX, where
// mpi_bridge is built without it (MPI_BRIDGE_BARE).
#include "transport/ucx/network.hpp"
#include "transport/ucx/transport.hpp"

namespace mpi_bridge {
namespace {

constexpr const char* not_built = "this libmpi_bridge was built without UCX";

}  // namespace

Outcome<std::unique_ptr<UcxTransport>> UcxTransport::open(Options /*options*/) {
    return fail(MPIB_ERROR_INVALID_ARGUMENT,
                std::string(not_built) + ": set MPI_BRIDGE_NETWORK to auto or tcp");
}

std::string ucx_version() {
    return "none";
}

Outcome<std::vector<std::string>> ucx_transports() {
    return fail(MPIB_ERROR_INTERNAL, not_built);
}

std::string ucx_network_in_use(bool /*named*/) {
    return not_built;
}

}  // namespace mpi_bridge
