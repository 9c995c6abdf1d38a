// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/devices/cdi.hpp"

// What the hooks in NVIDIA's CDI files do (nvidia-cdi-hook, formerly "nvidia-ctk hook"), done
// without these programs: they mount /proc and change roots, which a user's process that is no
// container runtime of its own may not (NVIDIA/nvidia-container-toolkit, issue 1163).
namespace batchai::node {

struct VendorHook {
    std::string verb;  // "create-symlinks"
    // In order, as given: "--folder", "/usr/lib" or "--folder=/usr/lib".
    std::vector<std::pair<std::string, std::string>> options;

    [[nodiscard]] std::vector<std::string> values(std::string_view option) const;
};

// Nothing when the hook is another program's, or does what is not known here: it is then run.
[[nodiscard]] std::optional<VendorHook> vendor_hook(const CdiHook& hook);

//   create-symlinks --link TARGET::LINK …    makes or replaces the links
//   update-ldcache, create-soname-symlinks   --folder DIRECTORY …: into `directories`
//   enable-cuda-compat                       --host-driver-version V: the image's own CUDA driver
//                                            library to the front of `directories`, if it is newer
//   chmod --mode M --path P …                changes the mode, where the user may
//   disable-device-node-modification,        nothing: a user's process makes no device files
//   update-nvidia-params
[[nodiscard]] base::Result<void> perform(const VendorHook& hook, const Root& root,
                                         std::vector<std::string>& directories);

}  // namespace batchai::node
