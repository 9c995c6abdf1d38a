// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "status/history/facts.hpp"

// What the steps of an attempt have used on each node, over time.
namespace batchai::status {

struct ResourcePoint {
    base::Time time{};
    std::optional<double> cpus{};  // how many were busy since the point before
    double memory = 0;             // bytes
    std::optional<double> gpu{};   // mean of the step's GPUs, 0 to 1
};

struct NodeResources {
    std::string node{};
    std::vector<ResourcePoint> points{};  // in the order of time
    // Of the ranks.
    int cpus_given = 0;             // 0: unknown
    std::int64_t memory_asked = 0;  // bytes; 0: unknown, or all
    double cpus_mean = 0;
    std::int64_t memory_peak = 0;
    std::optional<double> gpu_mean{};
};

// Returns at most `most` points for each node.
[[nodiscard]] std::vector<NodeResources> resources_of(const std::vector<record::NodeUsage>& usage,
                                                      std::size_t most);

}  // namespace batchai::status
