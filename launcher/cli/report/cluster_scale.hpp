// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "base/error.hpp"
#include "store/records.hpp"

namespace batchai::cli {

struct ScaleFlags {
    std::optional<int> target;
    std::optional<int> minimum;
    std::optional<int> maximum;
};

// --target, --min and --max by Batch AI's rules; nothing when none of the three is given.
[[nodiscard]] base::Result<std::optional<store::ScaleSettings>> scale_from_flags(
    const ScaleFlags& flags);

}  // namespace batchai::cli
