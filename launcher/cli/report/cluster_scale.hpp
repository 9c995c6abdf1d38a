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

// What one of the two members says; the other is absent.
struct Scale {
    std::optional<store::ManualScale> manual;
    std::optional<store::AutoScale> auto_scale;

    bool operator==(const Scale&) const = default;
};

// --target, --min and --max by Batch AI's rules; nothing when none of the three is given.
[[nodiscard]] base::Result<std::optional<Scale>> scale_from_flags(const ScaleFlags& flags);

}  // namespace batchai::cli
