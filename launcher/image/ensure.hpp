// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>

#include "base/error.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"
#include "image/credentials.hpp"
#include "image/progress.hpp"
#include "plan/plan.hpp"

namespace batchai::image {

enum class Ensured { was_there, imported, imported_by_another };

struct EnsureOptions {
    std::int64_t limit = 0;  // bytes of the directory; older images make room; 0: none
    InUse in_use;            // these stay
    Watch watch;
    ShowProgress show;
    std::chrono::seconds deadline = std::chrono::hours(2);  // for another's import to end
};

// Sees to it that the root of the container is there: at once, without a lock, when it is; else by
// an import, which of all processes on all hosts that want the same image one does, while the
// others wait for it.
[[nodiscard]] base::Result<Ensured> ensure(const plan::Container& container, const Access& access,
                                           const EnsureOptions& options);

}  // namespace batchai::image
