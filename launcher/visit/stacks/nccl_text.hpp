// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "visit/stacks/answer.hpp"

namespace batchai::visit {

// Shows what NCCL says of its communicators. Empty if it has said nothing.
[[nodiscard]] inline std::string nccl_text(const std::vector<NodeStacks>& nodes) {
    std::string text;
    for (const NodeStacks& node : nodes) {
        if (node.nccl.empty()) continue;
        text += fmt::format("\nNCCL, asked on {}:\n", node.node);
        for (const std::string& line : node.nccl)
            text += line.empty() ? "\n" : fmt::format("    {}\n", line);
    }
    return text;
}

}  // namespace batchai::visit
