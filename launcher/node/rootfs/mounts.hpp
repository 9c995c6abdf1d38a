// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/beneath.hpp"
#include "plan/plan.hpp"

// Parts of the node's own file system, and fresh ones, mounted below a root.
namespace batchai::node {

struct Bind {
    std::string source;  // absolute, on the node
    std::string target;  // absolute, inside
    bool read_only = false;
    bool optional = false;  // it is no error if it is missing or may not be entered
    // Who asks for it and who can help, for the message that it cannot be shown.
    std::string hint = {};

    bool operator==(const Bind&) const = default;
};

// A copy of a directory or file, with all that is mounted below it, that is not attached yet.
struct HostTree {
    Bind bind;
    base::FileDescriptor tree = {};
    bool is_directory = true;
};

// Copies what `bind` names, with the user's rights. The tree is empty when an optional one is
// missing.
[[nodiscard]] base::Result<HostTree> copy_host_tree(const Bind& bind);

// Mounts the copy in the root; the directory or file to mount on is made where it is missing.
[[nodiscard]] base::Result<void> attach(const HostTree& host, const Root& root);

struct FreshTmpfs {
    std::string target;  // absolute, inside the root; made where it is missing
    std::string mode;    // octal, of its top directory
    std::int64_t bytes = 0;
    bool read_only = false;
};

// An empty file system in memory, without set-user-id programs and devices of its own.
[[nodiscard]] base::Result<void> mount_tmpfs(const FreshTmpfs& request, const Root& root);

// Opens mount.source (O_PATH) with the user's rights. What comes after mount.source_root may be
// links, but none that lead out of it.
[[nodiscard]] base::Result<base::FileDescriptor> open_mount_source(const plan::Mount& mount);

// Shows mount.source, with what is mounted below it, at mount.target below `root`, in this process'
// own mount namespace. Read-only and no-execute hold before the mount is visible. Needs Linux 5.12.
[[nodiscard]] base::Result<void> bind_mount(const plan::Mount& mount, const Root& root);

}  // namespace batchai::node
