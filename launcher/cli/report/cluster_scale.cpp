// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/cluster_scale.hpp"

namespace batchai::cli {
namespace {

store::ScaleSettings manual_scale(int target) {
    return {.manual = store::ManualScale{.target_node_count = target}, .auto_scale = {}};
}

}  // namespace

base::Result<std::optional<store::ScaleSettings>> scale_from_flags(const ScaleFlags& flags) {
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
        return manual_scale(*target);
    }
    if (*minimum == *maximum && (!target || *target == *minimum)) {
        return manual_scale(*minimum);
    }
    return store::ScaleSettings{
        .manual = {},
        .auto_scale = store::AutoScale{.minimum_node_count = *minimum,
                                       .maximum_node_count = *maximum,
                                       .initial_node_count = target.value_or(0)}};
}

}  // namespace batchai::cli
