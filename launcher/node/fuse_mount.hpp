// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/file.hpp"

// FUSE without fusermount, which needs to be setuid and has no rights inside a user namespace: who
// made the namespaces may mount there. The program that serves the mount is given the descriptor.
namespace batchai::node {

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
