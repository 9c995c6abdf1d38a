// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/failure.hpp"
#include "transport/ucx/choice.hpp"

struct ucp_config;  // UCX's ucp_config_t

namespace mpi_bridge {

// Applies choose_ucx() to `config`, given UCX_TLS and UCX_NET_DEVICES as the environment or UCX's
// configuration file sets them, and logs the result in one line at level info. If there is no RDMA,
// long messages are sent without a rendezvous, unless UCX_RNDV_THRESH is set. Call before
// ucp_init().
[[nodiscard]] Done configure_network(ucp_config* config, UcxUse use);

// What configure_network() would log for ranks on several hosts if they were started on this one,
// for reports: "mlx5_0:1: RDMA; …".
[[nodiscard]] std::string ucx_network_in_use(bool named);

}  // namespace mpi_bridge
