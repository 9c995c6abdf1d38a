// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace batchai::node {

// Returns what Slurm calls this node. At many sites that is not the host's name. The plugin tells
// its programs (BATCHAI_NODE of spank/protocol.h), Slurm tells tasks and epilogs (SLURMD_NODENAME);
// without either it is host_name().
[[nodiscard]] std::string node_name();

// Returns the host's name without a domain.
[[nodiscard]] std::string host_name();

}  // namespace batchai::node
