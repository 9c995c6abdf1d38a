// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/file.hpp"

// FUSE without fusermount, which needs to be setuid and has no rights inside a user namespace: who
// made the namespaces may mount there. The program that serves the mount is given the descriptor.
namespace batchai::node {

[[nodiscard]] base::Result<base::FileDescriptor> open_fuse_device();

// Mounts on the directory that is open as `target`. `name` is what mount tables show. All processes
// of this user namespace and those below it may enter, and none outside. The descriptor must have
// been opened in this user namespace.
[[nodiscard]] base::Result<void> mount_fuse(const base::FileDescriptor& device, int target,
                                            const std::string& name, bool read_only,
                                            bool no_execute);

}  // namespace batchai::node
