// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
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
[[nodiscard]] base::Result<void> attach(const HostTree& host, const base::Root& root);

struct FreshTmpfs {
    std::string target;  // absolute, inside the root; made where it is missing
    std::string mode;    // octal, of its top directory
    std::int64_t bytes = 0;
    bool read_only = false;
};

// An empty file system in memory, without set-user-id programs and devices of its own.
[[nodiscard]] base::Result<void> mount_tmpfs(const FreshTmpfs& request, const base::Root& root);

// Opens mount.source (O_PATH) with the user's rights. What comes after mount.source_root may be
// links, but none that lead out of it.
[[nodiscard]] base::Result<base::FileDescriptor> open_mount_source(const plan::Mount& mount);

// Shows mount.source, with what is mounted below it, at mount.target below `root`, in this process'
// own mount namespace. Read-only and no-execute hold before the mount is visible. Needs Linux 5.12.
[[nodiscard]] base::Result<void> bind_mount(const plan::Mount& mount, const base::Root& root);

// Which parts of the node's file system a container shows. Pure.

struct NodePlaces {
    std::string home;              // the user's; empty: none
    std::string spool;             // slurmd's, where PMIx's server has its sockets
    std::string submit_directory;  // from where srun was called; empty: not known
};

// Sorted so that outer directories come before those inside them. A directory that its outer one
// shows anyway is left out.
[[nodiscard]] std::vector<Bind> plan_binds(const plan::Plan& plan, const NodePlaces& places);

// What a step adds to a container that another step has made: the directory in which it was
// started, unless every container of the plan shows that, or no container may.
[[nodiscard]] std::optional<Bind> further_bind(const plan::Plan& plan, const NodePlaces& places);

// FUSE without fusermount, which needs to be setuid and has no rights inside a user namespace: who
// made the namespaces may mount there. The program that serves the mount is given the descriptor.

struct FuseMount {
    std::string program;  // for the type that mount tables show
    std::string source;   // what they show as mounted
    std::string target;   // an existing directory
    bool read_only = false;
    bool no_execute = false;
    bool kernel_checks_modes = false;  // else the program decides who may do what
};

[[nodiscard]] base::Result<base::FileDescriptor> open_fuse_device();

// All processes of this user namespace and those below it may enter, and none outside. The device
// must have been opened in this user namespace.
[[nodiscard]] base::Result<void> mount_fuse(const base::FileDescriptor& device,
                                            const FuseMount& request);

}  // namespace batchai::node
