// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

namespace batchai::node {

// Returns what Slurm calls this node. At many sites that is not the host's name. The plugin tells
// its programs (BATCHAI_NODE of spank/protocol.h), Slurm tells tasks and epilogs (SLURMD_NODENAME);
// without either it is host_name().
[[nodiscard]] std::string node_name();

// Returns the host's name without a domain.
[[nodiscard]] std::string host_name();

// Returns node_name() if the host may have other nodes as well, each with a slurmd of its own;
// nothing if all that the user has on the host is this node's. SLURM_CONF names the slurm.conf that
// tells, unless it is in one of the usual places.
[[nodiscard]] std::optional<std::string> node_of_shared_host();

}  // namespace batchai::node
