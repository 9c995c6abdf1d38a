// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>

// What an image's manifest says. Whoever runs a registry or writes a layout decides what is in it.
namespace batchai::image {

// Returns the digest, "sha256:<64 digits>", of a manifest, byte for byte as it was read.
[[nodiscard]] std::string digest_of(const std::string& manifest);

// Returns the bytes of an image's layers according to its manifest, or 0 if the manifest is a list
// of other manifests.
[[nodiscard]] std::int64_t layer_bytes(const std::string& manifest);

// Returns the digest for `architecture` from a list of manifests (one image for several
// architectures). It is empty if `manifest` is no such list or has no entry for the architecture.
[[nodiscard]] std::string instance_digest(const std::string& manifest,
                                          const std::string& architecture);

// Returns whether `manifest` is a list of manifests with that digest in it.
[[nodiscard]] bool lists_digest(const std::string& manifest, const std::string& digest);

// Returns why no root file system can be made of what the manifest describes, as the end of a
// sentence that begins with the image's name. Empty if nothing speaks against it, as of a list of
// manifests.
[[nodiscard]] std::string why_not_an_image(const std::string& manifest);

}  // namespace batchai::image
