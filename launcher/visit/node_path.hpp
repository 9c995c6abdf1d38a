// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

// The paths of a copy: which is on a node, and how the node finds it. Asks nobody.
namespace batchai::visit {

// A side of a copy: a path of this host, or one that the job's processes see on a node.
struct CopySide {
    std::optional<std::string> job;  // none: this host
    std::string path;

    bool operator==(const CopySide&) const = default;
};

// Reads "PATH" or "JOB:PATH". A path with a slash before its first colon is one of this host.
[[nodiscard]] CopySide copy_side(const std::string& text);

// A path on a node, in which the node expands the variables of Batch AI.
struct NodePath {
    // Texts and names of variables in turn; a text comes first.
    std::vector<std::string> parts;
    // The last component; empty if only the node knows it.
    std::string name;
    // The path as the plan knows it; empty if it does not.
    std::string expected;
};
[[nodiscard]] base::Result<NodePath> node_path(const std::string& text, const plan::Plan& plan);

// Returns whether the last component of the path can have this name on the node. The node is not
// trusted, so a variable stands for no dot at the beginning of a name.
[[nodiscard]] bool may_be_named(const NodePath& path, std::string_view name);

// Returns a line of a POSIX shell that sets p to the path, whose texts are the arguments from
// number `first` on.
[[nodiscard]] std::string shell_path(const NodePath& path, std::size_t first);
[[nodiscard]] std::vector<std::string> texts_of(const NodePath& path);

// Returns the path as users write it: "$AZ_BATCHAI_JOB_TEMP/log".
[[nodiscard]] std::string shown_path(const NodePath& path);

}  // namespace batchai::visit
