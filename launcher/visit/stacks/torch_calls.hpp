// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "visit/stacks/answer.hpp"

// What the ranks of torch.distributed tell together. Pure.
namespace batchai::visit {

// Says, in lines, which collective each process group is at, which ranks have not come to it or
// have made another call, and which ranks are waited for. `nodes` has all nodes of the job. Empty
// if there is nothing to say.
[[nodiscard]] std::string torch_text(const std::vector<NodeStacks>& nodes);

// Returns the number that torch.distributed gives to the rank for which all waiting ranks wait,
// directly or by way of others, and which waits for nobody. Returns nothing if there are several,
// or none.
[[nodiscard]] std::optional<int> rank_awaited_by_torch(const std::vector<NodeStacks>& nodes);

}  // namespace batchai::visit
