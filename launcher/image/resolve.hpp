// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"
#include "image/credentials.hpp"
#include "image/reference.hpp"
#include "plan/plan.hpp"

namespace batchai::image {

// Asks once for the image's digest, which identifies the image from now on, and for its
// configuration. Downloads no layer. A squashfs file or root directory is only checked. The result
// has everything that a container takes from its image. `written` is the image as the user wrote
// it.
[[nodiscard]] base::Result<plan::Container> resolve(const Reference& reference,
                                                    const std::string& written,
                                                    const Places& places, const Access& access,
                                                    const Watch& watch);

// Reads the image's configuration, as `skopeo inspect --config` prints it, into `container`.
[[nodiscard]] base::Result<void> read_config(const std::string& text, plan::Container& container);

// Returns the image's manifest, byte for byte. Its SHA-256 is the digest.
[[nodiscard]] base::Result<std::string> raw_manifest(const std::string& source,
                                                     const std::string& image, const Access& access,
                                                     const Watch& watch);

[[nodiscard]] std::string digest_of(const std::string& manifest);

}  // namespace batchai::image
