// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "run/watch/stack_look.hpp"
#include "visit/visit.hpp"

// Asks the nodes of a running job what its processes do: `job stacks`.
namespace batchai::visit {

// Looks as StackLook does, and waits for the answers. Returns nothing if the user ends the command.
[[nodiscard]] base::Result<std::optional<run::StacksFound>> ask_for_stacks(
    const RunningJob& running, const std::vector<std::string>& nodes, StacksWanted wanted);

}  // namespace batchai::visit
