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
