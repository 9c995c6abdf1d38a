// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "visit/stacks/groups.hpp"

// Who holds up a job that stands still. Pure.
namespace batchai::visit {

struct Suspect {
    std::optional<int> rank;  // none: all of them are on the node
    std::string node;
    std::string where;
};

// Says, in lines, what mpi_bridge and torch.distributed tell of the operations that are open and of
// the ranks that have not come to them. `nodes` has all nodes of the job. Empty if there is nothing
// to say.
[[nodiscard]] std::string frameworks_text(const std::vector<NodeStacks>& nodes);

// Returns the rank for which the others wait, as mpi_bridge or torch.distributed tells. Otherwise
// the ranks of one node are returned if they are not in a call of mpi_bridge, Horovod,
// torch.distributed or mpi4py while all others are, or if more than half of the ranks are at the
// same place and all but theirs are there. Returns nothing if the stacks do not single anybody out.
[[nodiscard]] std::optional<Suspect> suspect(const std::vector<NodeStacks>& nodes,
                                             const std::vector<StackGroup>& groups);

// Says in one line where the ranks are: the larger groups first, and some of them only.
[[nodiscard]] std::string summary(const std::vector<StackGroup>& groups);

}  // namespace batchai::visit
