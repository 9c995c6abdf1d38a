// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/variable.hpp"

namespace batchai::image {

// An image as it is frozen at submission, so that every node and every attempt of a job runs the
// same one.
struct FrozenImage {
    std::string image;  // as the user wrote it, for messages
    // "sha256:…" or "local:…" of the image's manifest, see image/cache.hpp; empty for a squashfs
    // file or a directory.
    std::string digest;
    // The source of the import in skopeo's notation, pinned to the digest if that is possible:
    // "docker://registry/repository@sha256:…", "oci:/dir:tag". Empty without a digest.
    std::string source;
    // Host path of a squashfs file, or of a directory that is a root file system. With a digest it
    // is a file in the image cache, which is made before the first step needs it.
    std::string root;
    bool root_is_directory = false;
    // For the import at the job's start, if the image is no longer in the cache by then.
    bool insecure_registry = false;           // no TLS, or certificates are not checked
    std::int64_t cache_limit = 0;             // limit in bytes of the directory of `root`; 0: none
    std::vector<base::Variable> environment;  // the image's own
    std::vector<std::string> entrypoint;  // prepended to each command; empty: none, or not wanted
    std::string working_directory;        // empty: that of the Slurm task, if the image has it
    // If `root` is in the site's shared directory of images: the id of the user who fills that
    // directory. -1: `root` is the user's own.
    int root_owner = -1;

    bool operator==(const FrozenImage&) const = default;
};

}  // namespace batchai::image
