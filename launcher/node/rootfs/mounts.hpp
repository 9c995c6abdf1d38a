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

// Mounts below a root: parts of the node's own file system, and new file systems.

namespace batchai::node {

struct Bind {
    std::string source;  // absolute, on the node
    std::string target;  // absolute, inside the root
    bool read_only = false;
    bool optional = false;  // skipped if it is missing or may not be entered
    // For the message that the bind has failed: what asks for it, and who can help.
    std::string hint = {};

    bool operator==(const Bind&) const = default;
};

// A copy of the mount tree of a directory or file, with all mounts below it, that is not attached
// yet.
struct HostTree {
    Bind bind;
    base::FileDescriptor tree = {};
    bool is_directory = true;
};

// Copies the mount tree of `bind.source` with the user's rights. The copy's `tree` is not valid if
// the source is optional and missing.
[[nodiscard]] base::Result<HostTree> copy_host_tree(const Bind& bind);

// Mounts the copy in the root. Makes the directory or file to mount on if it is missing.
[[nodiscard]] base::Result<void> attach(const HostTree& host, const base::Root& root);

struct FreshTmpfs {
    std::string target;  // absolute, inside the root; made if it is missing
    std::string mode;    // octal, of the top directory
    std::int64_t bytes = 0;
    bool read_only = false;
};

// Mounts an empty file system in memory, which allows no set-user-id programs and no device files
// of its own.
[[nodiscard]] base::Result<void> mount_tmpfs(const FreshTmpfs& request, const base::Root& root);

// Opens mount.source (O_PATH) with the user's rights. The components after mount.source_root may be
// symbolic links, but none that lead out of it.
[[nodiscard]] base::Result<base::FileDescriptor> open_mount_source(const plan::Mount& mount);

// Bind-mounts mount.source, with all mounts below it, at mount.target below `root` in this
// process's own mount namespace. The mount is read-only or no-execute before it becomes visible.
// Needs Linux 5.12.
[[nodiscard]] base::Result<void> bind_mount(const plan::Mount& mount, const base::Root& root);

// The functions below choose the parts of the node's file system that a container has. They have no
// side effects.

struct NodePlaces {
    std::string home;              // the user's; empty: none
    std::string spool;             // slurmd's, where the PMIx server has its sockets
    std::string submit_directory;  // where srun was called; empty: unknown
};

// Returns the binds, sorted so that outer directories come before those inside them. Leaves out a
// directory that is visible in an outer one anyway.
[[nodiscard]] std::vector<Bind> plan_binds(const plan::Plan& plan, const NodePlaces& places);

// Returns what a step adds to a container that another step has made: the directory in which the
// step was started. Returns nothing if every container of the plan has that directory, or if no
// container may have it.
[[nodiscard]] std::optional<Bind> further_bind(const plan::Plan& plan, const NodePlaces& places);

// FUSE mounts are made without fusermount. It would have to be set-user-id, and it has no rights
// inside a user namespace. The process that made the namespaces may mount there itself, and passes
// the device's descriptor to the program that serves the mount.

struct FuseMount {
    std::string program;  // shown as the type in mount tables
    std::string source;   // shown as the source in mount tables
    std::string target;   // an existing directory
    bool read_only = false;
    bool no_execute = false;
    bool kernel_checks_modes = false;  // otherwise the program checks permissions
};

[[nodiscard]] base::Result<base::FileDescriptor> open_fuse_device();

// Mounts the file system. All processes of this user namespace and of those below it have access,
// and no others. The device must have been opened in this user namespace.
[[nodiscard]] base::Result<void> mount_fuse(const base::FileDescriptor& device,
                                            const FuseMount& request);

}  // namespace batchai::node
