// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/devices/cdi.hpp"
#include "node/reply.hpp"

namespace batchai::node {

// What the hooks in NVIDIA's CDI files do (nvidia-cdi-hook, formerly "nvidia-ctk hook") is done
// without these programs: they mount /proc and change roots, which is forbidden to a user's process
// that is no container runtime of its own (NVIDIA/nvidia-container-toolkit, issue 1163).
struct VendorHook {
    std::string verb;  // "create-symlinks"
    // In order, as given: "--folder", "/usr/lib" or "--folder=/usr/lib".
    std::vector<std::pair<std::string, std::string>> options;

    [[nodiscard]] std::vector<std::string> values(std::string_view option) const;
};

// Nothing when the hook is another program's, or has a verb that is not known here: the program is
// run in these cases.
[[nodiscard]] std::optional<VendorHook> vendor_hook(const CdiHook& hook);

//   create-symlinks --link TARGET::LINK …    makes or replaces the links
//   update-ldcache, create-soname-symlinks   --folder DIRECTORY …: into `directories`
//   enable-cuda-compat                       --host-driver-version V: the image's own CUDA driver
//                                            library to the front of `directories`, if it is newer
//   chmod --mode M --path P …                changes the mode, where the user may
//   disable-device-node-modification,        nothing: a user's process makes no device files
//   update-nvidia-params
[[nodiscard]] base::Result<void> perform(const VendorHook& hook, const base::Root& root,
                                         std::vector<std::string>& directories);

// Where the root file system of a container lies before it is changed to.
struct HookPlace {
    const base::Root& root;       // with its path on the node
    const std::string& bundle;    // directory in which config.json is written for the hooks
    const std::string& job_name;  // the container's id, for them
};

// Carries out the hooks in their order, in a process that has the container's mount namespace and
// still the node's root: this is the stage createContainer of the OCI runtime specification. A hook
// is run as the user, with the container's state on its standard input, unless it is a VendorHook.
//
// Returns further directories of libraries for the loader, in the order in which it shall search
// them.
[[nodiscard]] base::Result<std::vector<std::string>> run_hooks(const std::vector<CdiHook>& hooks,
                                                               const HookPlace& place,
                                                               const Trace& trace);

}  // namespace batchai::node
