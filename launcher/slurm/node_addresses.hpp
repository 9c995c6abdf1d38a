// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

namespace batchai::slurm {

// Returns what base::address_of() says of each node. Slurm's names of nodes need not be names of
// hosts: where they do not resolve, Slurm is asked for the NodeAddr of slurm.conf. This node may
// know itself only by an address of its loopback, which the others cannot use: its address is then
// that with which it reaches the others.
[[nodiscard]] std::vector<std::string> addresses_of(const std::vector<std::string>& nodes);

}  // namespace batchai::slurm
