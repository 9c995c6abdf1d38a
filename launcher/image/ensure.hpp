// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>

#include "base/error.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"
#include "image/credentials.hpp"
#include "image/frozen.hpp"
#include "image/progress.hpp"

// Images for containers. resolve() freezes an image when a job is submitted, and ensure() imports
// it when the job starts, unless it is there. The other parts are:
//
//   reference.hpp    reads what users write for an image
//   credentials.hpp  credentials for registries
//   resolve.hpp      asks for the image's digest and configuration
//   manifest.hpp     what an image's manifest says
//   enroot.hpp       what `enroot import` has written into a squashfs file
//   frozen.hpp       the image as a job keeps it
//   cache.hpp        the directories of imported images
//   lease.hpp        the right to import an image, which one process of all hosts has
//   import.hpp       pulls, unpacks and packs an image
//   command.hpp      runs skopeo and other programs, and explains their errors
//   progress.hpp     how far an import is
namespace batchai::image {

enum class Ensured { was_there, imported, imported_by_another };

struct EnsureOptions {
    std::int64_t limit = 0;  // limit in bytes of the directory, kept by removing images; 0: none
    InUse in_use;            // images that are not removed
    Watch watch;
    ShowProgress show;
    std::chrono::seconds deadline = std::chrono::hours(2);  // for another process's import
};

// Makes sure that the image's root file system exists. If it does, this returns at once and
// takes no lock. Otherwise the image is imported: of all processes on all hosts that want the same
// image, one imports it and the others wait.
[[nodiscard]] base::Result<Ensured> ensure(const FrozenImage& frozen, const Access& access,
                                           const EnsureOptions& options);

}  // namespace batchai::image
