// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"
#include "image/credentials.hpp"
#include "image/frozen.hpp"
#include "image/reference.hpp"

namespace batchai::image {

struct Resolved {
    FrozenImage frozen;
    std::vector<std::string> notices;  // sentences about what the user may not expect of the image
};

// Asks once for the image's digest, which identifies the image from now on, and for its
// configuration. Downloads no layer. Refuses what no root file system can be made of. The
// configuration of a squashfs file is what `enroot import` has written into it; a root directory is
// only checked. `written` is the image as the user wrote it.
[[nodiscard]] base::Result<Resolved> resolve(const Reference& reference, const std::string& written,
                                             const Places& places, const Access& access,
                                             const Watch& watch);

// Reads the image's configuration, as `skopeo inspect --config` prints it, into `frozen`.
[[nodiscard]] base::Result<void> read_config(const std::string& text, FrozenImage& frozen);

// Returns the image's manifest, byte for byte. Its SHA-256 is the digest.
[[nodiscard]] base::Result<std::string> raw_manifest(const std::string& source,
                                                     const std::string& image, const Access& access,
                                                     const Watch& watch);

// Returns the manifest of the instance for this machine's processor if `manifest`, which was read
// from `source`, is a list of manifests in a registry; else `manifest`. In a layout or an archive
// only skopeo's copy finds the instance.
[[nodiscard]] base::Result<std::string> manifest_for_this_machine(std::string manifest,
                                                                  const std::string& source,
                                                                  const std::string& image,
                                                                  const Access& access,
                                                                  const Watch& watch);

}  // namespace batchai::image
