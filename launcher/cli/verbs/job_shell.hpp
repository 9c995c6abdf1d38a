// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/process.hpp"
#include "cli/output/output.hpp"
#include "cli/tree/parser.hpp"
#include "cli/verbs/context.hpp"
#include "visit/visit.hpp"

namespace batchai::cli {

struct VisitWish {
    std::optional<std::string> command{};  // for the shell; none: an interactive shell
    base::Arguments words{};               // a program and its arguments, instead of a shell
    bool terminal = false;
};

// Runs a command or a shell on a node of the job. The exit code is the command's. Says so if the
// job has ended, and the command with it.
[[nodiscard]] Answer visit(const Context& here, const visit::RunningJob& running,
                           const visit::VisitedNode& place, const VisitWish& wish);

void add_node_choice(Parser leaf, visit::NodeChoice& choice);

}  // namespace batchai::cli
