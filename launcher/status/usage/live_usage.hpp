// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "cli/output/output.hpp"
#include "record/attempt.hpp"
#include "record/usage.hpp"

// What `job top` shows: what the steps of a running job use now. Pure.
namespace batchai::status {

// How many samples a node gives for live_nodes().
inline constexpr std::size_t live_samples = 16;

// Between the last two samples.
struct LiveRank {
    int rank = 0;
    std::string node;
    int number = 0;                     // Slurm's, of the step
    std::optional<double> cpu_percent;  // of one CPU
    std::int64_t memory = 0;            // bytes
    std::optional<int> threads;
    std::optional<double> read;  // bytes per second
    std::optional<double> written;
    // Of the time, in collectives of mpi_bridge, over all samples at hand: a wait is added when it
    // ends.
    std::optional<double> wait_percent;
    bool holds_up = false;  // the others wait for it
};

struct LiveNode {
    std::string step;
    int number = 0;
    std::string node;
    int cpus = 0;
    double age = 0;  // of the last sample, in seconds
    std::optional<double> cpu_percent;
    std::int64_t memory = 0;
    std::int64_t peak = 0;
    std::int64_t memory_limit = 0;  // 0: unknown
    int threads = 0;
    std::optional<double> read;
    std::optional<double> written;
    std::optional<double> received;  // of the whole host, as `sent`
    std::optional<double> sent;
    std::vector<record::GpuUsage> gpus;
    std::vector<LiveRank> ranks;
};

// Returns the nodes of the steps that run in the attempt's present phase.
[[nodiscard]] std::vector<LiveNode> live_nodes(const std::vector<record::NodeUsage>& usage,
                                               const record::Attempt& attempt, base::Time now);

// Marks the rank for which all others wait, if there is one; see record::awaited_one().
void mark_slow_rank(std::vector<LiveNode>& nodes);

enum class TopOrder { node, rank, cpu, memory, read, write, network };
[[nodiscard]] base::Result<TopOrder> top_order(std::string_view word);

[[nodiscard]] base::Value to_value(const std::vector<LiveNode>& nodes);

// Returns two tables, the first of the nodes and their GPUs, the second of the ranks, that fit in
// `width` columns and `height` lines. 0: as large as they are. Columns that do not fit are left
// out, those at the end first, and so are lines.
struct TopSize {
    std::size_t width = 0;
    std::size_t height = 0;
};
[[nodiscard]] std::string top_text(const std::vector<LiveNode>& nodes, TopOrder order,
                                   TopSize size);

}  // namespace batchai::status
