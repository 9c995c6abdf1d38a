// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi_bridge/transport/choice/network.hpp"
#include "plan/plan.hpp"

// The network interface that NCCL is told to use. mpi_bridge decides it in the same way as for its
// own connections. NCCL alone would prefer any interface whose name begins with "ib".
namespace batchai::node {

struct NcclInterface {
    std::string name;    // empty: NCCL chooses, because another card is not slower
    std::string reason;  // for the job's log
};

// Chooses among the interfaces of this node. `environment` is that of the job: UCX_NET_DEVICES,
// which also decides for mpi_bridge, may name an interface there. Returns nothing if no interface
// is up.
[[nodiscard]] std::optional<NcclInterface> choose_nccl_interface(
    const mpi_bridge::Network& network, const std::vector<plan::Variable>& environment);

// The same for this node, whose ranks meet those of other nodes at the address `master`. It may be
// empty or a name: then the route to it decides nothing.
[[nodiscard]] std::optional<NcclInterface> nccl_interface_of_this_node(
    const std::string& master, const std::vector<plan::Variable>& environment);

}  // namespace batchai::node
