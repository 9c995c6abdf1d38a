// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "visit/stacks/answer.hpp"
#include "visit/visit.hpp"

// Asks the nodes of a running job what its processes do: `job stacks`.
namespace batchai::visit {

struct StacksFound {
    std::vector<NodeStacks> nodes;  // in the order in which they were asked
    struct Missing {
        std::string node;
        std::string why;
    };
    std::vector<Missing> missing;
};

// Looks at the nodes, at all of them at about the same moment, and at the main threads of Python or
// at all of them. A node that does not answer within some seconds is missing. Fails if none does.
// Returns nothing if the user ends the command.
[[nodiscard]] base::Result<std::optional<StacksFound>> ask_for_stacks(
    const RunningJob& running, const std::vector<std::string>& nodes, bool all_threads);

}  // namespace batchai::visit
