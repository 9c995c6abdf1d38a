// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/beneath.hpp"

// Parts of the node's own file system that are shown inside a container.
namespace batchai::node {

struct Bind {
    std::string source;  // absolute, on the node
    std::string target;  // absolute, inside
    bool read_only = false;
    // Not an error when it is not there or may not be entered.
    bool optional = false;
    // For the message that it cannot be shown: who asks for it, and who can help.
    std::string hint = {};

    bool operator==(const Bind&) const = default;
};

// A copy of a directory or file with all that is mounted below it, not yet shown anywhere.
struct HostTree {
    Bind bind;
    base::FileDescriptor tree;
    bool is_directory = true;
};

// Opened with the user's rights. Without a tree when the bind is optional and not there.
[[nodiscard]] base::Result<HostTree> copy_host_tree(const Bind& bind);

// Shows the copy in the root; the directory or file to mount on is made where it is missing.
[[nodiscard]] base::Result<void> attach(const HostTree& host, const Root& root);

}  // namespace batchai::node
