// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "node/devices/cdi.hpp"
#include "node/trace.hpp"

namespace batchai::node {

// Where the root file system of a container lies before it is changed to.
struct HookPlace {
    const Root& root;             // with its path on the node
    const std::string& bundle;    // directory in which config.json is written for the hooks
    const std::string& job_name;  // the container's id, for them
};

// Carries out what the hooks are for, in their order, in a process that has the container's mount
// namespace and still the node's root: createContainer of the OCI runtime specification. A hook is
// run as the user, with the container's state on its standard input; those of NVIDIA's tools are
// done without the tool (vendor_hooks.hpp), which needs rights that no user has.
//
// Returns the directories in which the loader is to find libraries that it does not know of yet,
// those first that come first.
[[nodiscard]] base::Result<std::vector<std::string>> run_hooks(const std::vector<CdiHook>& hooks,
                                                               const HookPlace& place,
                                                               const Trace& trace);

}  // namespace batchai::node
