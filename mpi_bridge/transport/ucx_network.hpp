// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <ucp/api/ucp_def.h>

#include "core/failure.hpp"
#include "transport/ucx_choice.hpp"

namespace mpi_bridge {

// Tells UCX what choose_ucx() says, from UCX_TLS and UCX_NET_DEVICES as they are in the environment
// or in UCX's configuration file, and says in one line of level info what is taken. Where there is
// no RDMA, has long messages sent at once, unless UCX_RNDV_THRESH is set. Before ucp_init().
[[nodiscard]] Done settle_network(ucp_config_t* config, UcxUse use);

// What settle_network() would say for ranks on several hosts, started on this one, for reports:
// "mlx5_0:1: RDMA; …".
[[nodiscard]] std::string ucx_network_in_use(bool named);

}  // namespace mpi_bridge
