// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/gpus.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace batchai::plan {

namespace {

// Returns the number at the end of "a100:2" or "2", and 1 for a text without a number.
int count_at_end(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    const auto number =
        base::number_in<int>(colon == std::string_view::npos ? text : text.substr(colon + 1));
    return std::max(0, number.value_or(1));
}

// The sum of "a100:2,k80:1".
int sum_of(std::string_view counts) {
    int sum = 0;
    for (const std::string_view count : base::split(counts, ','))
        sum += count_at_end(count);
    return sum;
}

// The GPUs among generic resources such as "gpu:a100:2,license:1"; nothing if there are none.
std::optional<int> gpus_among(std::string_view resources) {
    std::optional<int> sum;
    for (const std::string_view resource : base::split(resources, ',')) {
        const std::size_t colon = resource.find(':');
        if (resource.substr(0, colon) != "gpu") continue;
        sum = sum.value_or(0) +
              (colon == std::string_view::npos ? 1 : count_at_end(resource.substr(colon + 1)));
    }
    return sum;
}

// A number that is too large for any cluster is as good as an unknown one.
int times(int count, int factor) {
    return factor > 0 && count > std::numeric_limits<int>::max() / factor ? 0 : count * factor;
}

}  // namespace

std::optional<int> gpus_of_job(const Allocation& allocation) {
    for (const SlurmOption& option : allocation.options) {
        if (option.name == "gres") {
            if (const auto gpus = gpus_among(option.value)) return times(*gpus, allocation.nodes);
        }
        if (option.name == "gpus") return sum_of(option.value);
        if (option.name == "gpus-per-node") return times(sum_of(option.value), allocation.nodes);
        if (option.name == "gpus-per-task")
            return times(sum_of(option.value), allocation.processes);
        if (option.name == "gpus-per-socket") return 0;
    }
    return std::nullopt;
}

bool asks_for_gpus_of_a_part(const SlurmOption& option) {
    if (option.name == "gres") return gpus_among(option.value).has_value();
    if (option.name == "tres-per-task") return option.value.find("gpu") != std::string::npos;
    return option.name.starts_with("gpus-per-");
}

std::optional<std::string> gpus_of_each_node(std::string_view gpus, int nodes) {
    std::vector<std::string> parts;
    for (const std::string_view part : base::split(gpus, ',')) {
        const std::size_t colon = part.rfind(':');
        const std::size_t number = colon == std::string_view::npos ? 0 : colon + 1;
        const auto count = base::number_in<int>(part.substr(number));
        if (!count && nodes == 1 && !part.empty()) {
            parts.emplace_back(part);  // a type alone, which is one GPU
            continue;
        }
        if (!count || *count % nodes != 0) return std::nullopt;
        parts.push_back(fmt::format("{}{}", part.substr(0, number), *count / nodes));
    }
    return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace batchai::plan
