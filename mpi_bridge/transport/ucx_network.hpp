// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <ucp/api/ucp_def.h>

namespace mpi_bridge {

// Restricts UCX to the devices of choose_devices(), unless UCX_NET_DEVICES is set in the
// environment or in UCX's configuration file, and says in one line of level info what is taken.
// Where there is no RDMA, has long messages sent at once, unless UCX_RNDV_THRESH is set. For ranks
// on several hosts; before ucp_init().
void settle_network(ucp_config_t* config);

// What settle_network() would say on this host, for reports: "eth0, because …".
[[nodiscard]] std::string ucx_network_in_use();

}  // namespace mpi_bridge
