// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace batchai::plan {

// Returns how many GPUs the options of the allocation ask for, on all nodes together. Returns
// nothing if they ask for none, and 0 if they do not tell the number (gpus-per-socket).
[[nodiscard]] std::optional<int> gpus_of_job(const Allocation& allocation);

// Whether the option says how many GPUs a node, a socket or a task has.
[[nodiscard]] bool asks_for_gpus_of_a_part(const SlurmOption& option);

// Returns what --gpus-per-node has to be for the GPUs of --gpus to be on so many nodes, the same
// number on each: "a100:2" for "a100:4" on two nodes. Returns nothing if they cannot be divided.
[[nodiscard]] std::optional<std::string> gpus_of_each_node(std::string_view gpus, int nodes);

}  // namespace batchai::plan
