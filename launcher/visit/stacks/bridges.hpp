// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "visit/stacks/answer.hpp"

// What the ranks of mpi_bridge tell together. Pure.
namespace batchai::visit {

// Says, in lines, which operations of mpi_bridge are open on some ranks and not on others, and
// which ranks are waited for and wait for nobody themselves. `nodes` has all nodes of the job.
// Empty if there is nothing to say.
[[nodiscard]] std::string bridge_text(const std::vector<NodeStacks>& nodes);

// Returns the number that mpi_bridge gives to the rank for which all waiting ranks wait, directly
// or by way of others, and which waits for nobody. Returns nothing if there are several, or none.
[[nodiscard]] std::optional<int> awaited_rank(const std::vector<NodeStacks>& nodes);

}  // namespace batchai::visit
