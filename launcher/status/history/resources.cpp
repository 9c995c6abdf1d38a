// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/resources.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "status/history/phases.hpp"

namespace batchai::status {

namespace {

using record::NodeUsage;
using record::UsageSample;

std::optional<double> gpu_of(const UsageSample& sample) {
    double sum = 0;
    int count = 0;
    for (const record::GpuUsage& gpu : sample.gpus) {
        if (!gpu.busy) continue;
        sum += std::clamp(*gpu.busy, 0, 100) / 100.0;
        ++count;
    }
    return count > 0 ? std::optional(sum / count) : std::nullopt;
}

// Two samples that are nearly of one time say nothing about the speed between them.
constexpr double shortest_seconds = 0.05;

void add_points(const NodeUsage& step, NodeResources& into) {
    base::Time before = step.head.start;
    double cpu_before = 0;
    for (const UsageSample& sample : step.samples) {
        const double seconds = seconds_between(before, sample.time);
        ResourcePoint point{.time = sample.time,
                            .cpus = {},
                            .memory = static_cast<double>(sample.memory),
                            .gpu = gpu_of(sample)};
        if (seconds >= shortest_seconds)
            point.cpus = std::max(0.0, sample.cpu_seconds - cpu_before) / seconds;
        before = sample.time;
        cpu_before = sample.cpu_seconds;
        into.points.push_back(point);
    }
}

void add_ranks(const NodeUsage& step, NodeResources& into, double& seconds, double& cpu_seconds,
               double& gpu, int& gpu_samples) {
    into.cpus_given = std::max(into.cpus_given, step.head.cpus);
    into.memory_asked = std::max(into.memory_asked, step.head.memory);
    for (const UsageSample& sample : step.samples) {
        into.memory_peak = std::max(into.memory_peak, sample.peak);
        if (const auto busy = gpu_of(sample)) {
            gpu += *busy;
            ++gpu_samples;
        }
    }
    seconds += std::max(0.0, seconds_between(step.head.start, step.samples.back().time));
    cpu_seconds += step.samples.back().cpu_seconds;
}

// Leaves at most `most` points, each the mean of those that it replaces.
void thin(std::vector<ResourcePoint>& points, std::size_t most) {
    if (points.size() <= most || most == 0) return;
    std::vector<ResourcePoint> out;
    const std::size_t group = (points.size() + most - 1) / most;
    for (std::size_t i = 0; i < points.size(); i += group) {
        const std::size_t end = std::min(points.size(), i + group);
        ResourcePoint mean{.time = points[end - 1].time, .cpus = {}, .memory = 0, .gpu = {}};
        double cpus = 0;
        double gpu = 0;
        int with_cpus = 0;
        int with_gpu = 0;
        for (std::size_t j = i; j < end; ++j) {
            mean.memory = std::max(mean.memory, points[j].memory);
            if (points[j].cpus) cpus += *points[j].cpus, ++with_cpus;
            if (points[j].gpu) gpu += *points[j].gpu, ++with_gpu;
        }
        if (with_cpus > 0) mean.cpus = cpus / with_cpus;
        if (with_gpu > 0) mean.gpu = gpu / with_gpu;
        out.push_back(mean);
    }
    points = std::move(out);
}

}  // namespace

std::vector<NodeResources> resources_of(const std::vector<NodeUsage>& usage, std::size_t most) {
    std::map<std::string, std::vector<const NodeUsage*>> nodes;
    for (const NodeUsage& step : usage) {
        if (!step.samples.empty()) nodes[step.node].push_back(&step);
    }
    std::vector<NodeResources> out;
    for (auto& [node, steps] : nodes) {
        std::sort(steps.begin(), steps.end(), [](const NodeUsage* a, const NodeUsage* b) {
            return a->head.start < b->head.start;
        });
        NodeResources of_node{.node = node, .points = {}, .gpu_mean = {}};
        double seconds = 0;
        double cpu_seconds = 0;
        double gpu = 0;
        int gpu_samples = 0;
        for (const NodeUsage* const step : steps) {
            add_points(*step, of_node);
            if (record::kind_of_usage(step->step) == "ranks")
                add_ranks(*step, of_node, seconds, cpu_seconds, gpu, gpu_samples);
        }
        if (seconds > 0) of_node.cpus_mean = cpu_seconds / seconds;
        if (gpu_samples > 0) of_node.gpu_mean = gpu / gpu_samples;
        std::stable_sort(of_node.points.begin(), of_node.points.end(),
                         [](const auto& a, const auto& b) { return a.time < b.time; });
        thin(of_node.points, most);
        out.push_back(std::move(of_node));
    }
    return out;
}

}  // namespace batchai::status
