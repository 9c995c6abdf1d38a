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

// Asks once what the image is: its digest, which from now on stands for it, and its configuration.
// Downloads no layer. Of a file or root directory only that it is there. The result has everything
// of a container but /dev/shm's size and the users of ranks. `written` is the image as the user
// wrote it.
[[nodiscard]] base::Result<plan::Container> resolve(const Reference& reference,
                                                    const std::string& written,
                                                    const Places& places, const Access& access,
                                                    const Watch& watch);

// What the image says about itself, as `skopeo inspect --config` prints it, into `container`.
[[nodiscard]] base::Result<void> read_config(const std::string& text, plan::Container& container);

// The image's manifest, byte by byte; its SHA-256 is the digest.
[[nodiscard]] base::Result<std::string> raw_manifest(const std::string& source,
                                                     const std::string& image, const Access& access,
                                                     const Watch& watch);

[[nodiscard]] std::string digest_of(const std::string& manifest);

}  // namespace batchai::image
