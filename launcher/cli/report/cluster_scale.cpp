// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/cluster_scale.hpp"

namespace batchai::cli {

base::Result<std::optional<Scale>> scale_from_flags(const ScaleFlags& flags) {
    const auto& [target, minimum, maximum] = flags;
    const auto usage = base::ExitCode::usage;
    for (const auto& number : {target, minimum, maximum}) {
        if (number && *number < 0)
            return base::fail("A node count cannot be negative", "", "", usage);
    }
    if (minimum.has_value() != maximum.has_value()) {
        return base::fail(
            "You need to either provide both min and max node counts or not provide any of them",
            "", "", usage);
    }
    if (minimum && *minimum > *maximum) {
        return base::fail("Maximum nodes count must be greater or equal to minimum nodes count", "",
                          "", usage);
    }
    if (!minimum) {
        if (!target) return std::nullopt;
        return Scale{store::ManualScale{*target}, {}};
    }
    if (*minimum == *maximum && (!target || *target == *minimum)) {
        return Scale{store::ManualScale{*minimum}, {}};
    }
    return Scale{{}, store::AutoScale{*minimum, *maximum, target.value_or(0)}};
}

}  // namespace batchai::cli
