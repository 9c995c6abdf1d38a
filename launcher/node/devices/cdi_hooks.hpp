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

// A hook in NVIDIA's CDI files (nvidia-cdi-hook, formerly "nvidia-ctk hook") that is carried out
// here without running NVIDIA's program. The program mounts /proc and changes its root, which is
// forbidden to a user's process that is not a container runtime itself
// (NVIDIA/nvidia-container-toolkit, issue 1163).
struct VendorHook {
    std::string verb;  // "create-symlinks"
    // Names without "--", and values, in the order given. Both "--folder /usr/lib" and
    // "--folder=/usr/lib" are accepted.
    std::vector<std::pair<std::string, std::string>> options;

    [[nodiscard]] std::vector<std::string> values(std::string_view option) const;
};

// Returns nothing if the hook runs another program or has a verb that is not known here. In these
// cases the program itself is run.
[[nodiscard]] std::optional<VendorHook> vendor_hook(const CdiHook& hook);

// Carries out the hook. The last two verbs do nothing, because a user's process cannot make device
// files.
//   create-symlinks --link TARGET::LINK …       makes or replaces the links
//   update-ldcache --folder DIRECTORY …         adds the directories to `directories`
//   create-soname-symlinks --folder DIRECTORY … also adds them to `directories`
//   enable-cuda-compat --host-driver-version V  puts the directory of the image's own CUDA driver
//                                               library first in `directories` if it is newer
//   chmod --mode M --path P …                   changes the mode where the user may
//   disable-device-node-modification
//   update-nvidia-params
[[nodiscard]] base::Result<void> perform(const VendorHook& hook, const base::Root& root,
                                         std::vector<std::string>& directories);

// The container for which hooks are run, before this process changes its root to it.
struct HookPlace {
    const base::Root& root;       // with its path on the node
    const std::string& bundle;    // directory in which config.json is written for the hooks
    const std::string& job_name;  // the container's id for the hooks
};

// Carries out the hooks in order, in a process that has the container's mount namespace but still
// the node's root, as in the stage createContainer of the OCI runtime specification. A hook that is
// not a VendorHook is run as the user, with the container's state on its standard input.
//
// Returns additional library directories for the loader, in the order in which it should search
// them.
[[nodiscard]] base::Result<std::vector<std::string>> run_hooks(const std::vector<CdiHook>& hooks,
                                                               const HookPlace& place,
                                                               const Trace& trace);

}  // namespace batchai::node
