// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/usage/live_usage.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "record/rank_waits.hpp"
#include "status/usage/efficiency.hpp"

namespace batchai::status {

namespace {

// What is counted from the begin of a step never becomes less, but a damaged file may say so.
std::optional<double> rate(double before, double after, double seconds) {
    if (seconds <= 0) return std::nullopt;
    return std::max(0.0, after - before) / seconds;
}

std::optional<double> rate(std::int64_t before, std::int64_t after, double seconds) {
    return rate(static_cast<double>(before), static_cast<double>(after), seconds);
}

std::optional<double> rate(const std::optional<std::int64_t>& before,
                           const std::optional<std::int64_t>& after, double seconds) {
    return before && after ? rate(*before, *after, seconds) : std::nullopt;
}

std::optional<double> percent(const std::optional<double>& share) {
    return share ? std::optional(*share * 100) : std::nullopt;
}

// The name of the start of the ranks, as `batchai run` makes it.
std::string start_of(const record::Attempt& attempt) {
    return attempt.restarts.empty() ? std::to_string(attempt.number)
                                    : fmt::format("{}-{}", attempt.number, attempt.restarts.size());
}

// Returns whether the step belongs to the phase that the attempt is in.
bool is_of_phase(const record::NodeUsage& usage, const record::Attempt& attempt) {
    const std::string phase = attempt.phases.empty() ? "" : attempt.phases.back().name;
    const std::string kind = record::kind_of_usage(usage.step);
    if (phase != "ranks") return kind == phase;
    const std::string start = start_of(attempt);
    return kind != "preparation" && (usage.step == start || usage.step.starts_with(start + "."));
}

LiveRank live_rank(const record::RankUsage& now, const record::NodeUsage& usage,
                   const record::UsageSample* before, double seconds) {
    LiveRank out{.rank = now.rank,
                 .node = usage.node,
                 .number = usage.number,
                 .cpu_percent = {},
                 .memory = now.memory,
                 .threads = now.threads,
                 .read = {},
                 .written = {},
                 .wait_percent = {}};
    if (before == nullptr) return out;
    const auto same = std::find_if(before->ranks.begin(), before->ranks.end(),
                                   [&](const auto& rank) { return rank.rank == now.rank; });
    if (same == before->ranks.end()) return out;
    out.cpu_percent = percent(rate(same->cpu_seconds, now.cpu_seconds, seconds));
    out.read = rate(same->read, now.read, seconds);
    out.written = rate(same->written, now.written, seconds);
    return out;
}

LiveNode live_node(const record::NodeUsage& usage, base::Time time) {
    const record::UsageSample& now = usage.samples.back();
    const record::UsageSample* const before =
        usage.samples.size() > 1 ? &usage.samples[usage.samples.size() - 2] : nullptr;
    const auto since = [](base::Time from, base::Time to) {
        return std::chrono::duration<double>(to - from).count();
    };
    const double seconds = before == nullptr ? 0 : since(before->time, now.time);
    LiveNode out{.step = usage.step,
                 .number = usage.number,
                 .node = usage.node,
                 .cpus = usage.head.cpus,
                 .age = std::max(0.0, since(now.time, time)),
                 .cpu_percent = {},
                 .memory = now.memory,
                 .peak = now.peak,
                 .memory_limit = usage.head.memory,
                 .threads = now.threads,
                 .read = {},
                 .written = {},
                 .received = {},
                 .sent = {},
                 .gpus = now.gpus,
                 .ranks = {}};
    if (before != nullptr) {
        out.cpu_percent = percent(rate(before->cpu_seconds, now.cpu_seconds, seconds));
        out.read = rate(before->read, now.read, seconds);
        out.written = rate(before->written, now.written, seconds);
        out.received = rate(before->received, now.received, seconds);
        out.sent = rate(before->sent, now.sent, seconds);
    }
    for (const record::RankUsage& rank : now.ranks) {
        out.ranks.push_back(live_rank(rank, usage, before, seconds));
        out.ranks.back().wait_percent = percent(record::share_of_waiting(usage.samples, rank.rank));
    }
    return out;
}

}  // namespace

std::vector<LiveNode> live_nodes(const std::vector<record::NodeUsage>& usage,
                                 const record::Attempt& attempt, base::Time now) {
    std::vector<LiveNode> out;
    for (const record::NodeUsage& one : usage) {
        if (!one.samples.empty() && !one.ended && is_of_phase(one, attempt))
            out.push_back(live_node(one, now));
    }
    mark_slow_rank(out);
    return out;
}

void mark_slow_rank(std::vector<LiveNode>& nodes) {
    std::vector<LiveRank*> ranks;
    for (LiveNode& node : nodes) {
        for (LiveRank& rank : node.ranks) {
            if (rank.wait_percent) ranks.push_back(&rank);
        }
    }
    std::vector<double> shares;
    shares.reserve(ranks.size());
    for (const LiveRank* rank : ranks)
        shares.push_back(*rank->wait_percent / 100);
    if (const auto awaited = record::awaited_one(shares)) ranks[*awaited]->holds_up = true;
}

namespace {

constexpr std::array<std::pair<std::string_view, TopOrder>, 7> orders{{
    {"node", TopOrder::node},
    {"rank", TopOrder::rank},
    {"cpu", TopOrder::cpu},
    {"memory", TopOrder::memory},
    {"read", TopOrder::read},
    {"write", TopOrder::write},
    {"network", TopOrder::network},
}};

}  // namespace

base::Result<TopOrder> top_order(std::string_view word) {
    for (const auto& [name, order] : orders) {
        if (name == base::lower(word)) return order;
    }
    return base::fail(fmt::format("\"{}\" is not an order", word), "--sort",
                      "it is one of node, rank, cpu, memory, read, write and network",
                      base::ExitCode::usage);
}

namespace {

// What a script computes with has no digits that mean nothing.
base::Value or_null(std::int64_t number) {
    return number > 0 ? base::Value(number) : base::Value();
}

template <typename Number>
base::Value or_null(const std::optional<Number>& number) {
    return number ? base::Value(*number) : base::Value();
}

base::Value to_value(const LiveRank& rank) {
    return base::Value::Object{{"rank", rank.rank},
                               {"cpuPercent", tenths(rank.cpu_percent)},
                               {"waitPercent", tenths(rank.wait_percent)},
                               {"holdsUp", rank.holds_up},
                               {"memoryBytes", rank.memory},
                               {"threads", or_null(rank.threads)},
                               {"readBytesPerSecond", tenths(rank.read)},
                               {"writtenBytesPerSecond", tenths(rank.written)}};
}

base::Value to_value(const record::GpuUsage& gpu) {
    return base::Value::Object{{"gpu", gpu.index},
                               {"busyPercent", or_null(gpu.busy)},
                               {"memoryBytes", or_null(gpu.memory)},
                               {"powerWatts", or_null(gpu.watts)}};
}

template <typename Item>
base::Value::Array to_values(const std::vector<Item>& items) {
    base::Value::Array out;
    for (const Item& item : items)
        out.push_back(to_value(item));
    return out;
}

}  // namespace

base::Value to_value(const std::vector<LiveNode>& nodes) {
    base::Value::Array out;
    for (const LiveNode& node : nodes)
        out.push_back(base::Value::Object{{"node", node.node},
                                          {"step", node.step},
                                          {"slurmStep", node.number},
                                          {"sampleAgeSeconds", tenths(node.age)},
                                          {"cpus", or_null(node.cpus)},
                                          {"cpuPercent", tenths(node.cpu_percent)},
                                          {"memoryBytes", node.memory},
                                          {"memoryPeakBytes", node.peak},
                                          {"memoryLimitBytes", or_null(node.memory_limit)},
                                          {"threads", node.threads},
                                          {"readBytesPerSecond", tenths(node.read)},
                                          {"writtenBytesPerSecond", tenths(node.written)},
                                          {"receivedBytesPerSecond", tenths(node.received)},
                                          {"sentBytesPerSecond", tenths(node.sent)},
                                          {"gpus", to_values(node.gpus)},
                                          {"ranks", to_values(node.ranks)}});
    return out;
}

namespace {

std::string whole(const std::optional<double>& number) {
    return number ? fmt::format("{:.0f}", *number) : "";
}

std::string in_mebi(std::int64_t bytes) {
    return fmt::format("{:.0f}", static_cast<double>(bytes) / base::mebi);
}

std::string in_mebi(const std::optional<double>& bytes) {
    return bytes ? fmt::format("{:.1f}", *bytes / base::mebi) : "";
}

double network_of(const LiveNode& node) {
    return node.received.value_or(0) + node.sent.value_or(0);
}

// What most is used of comes first.
double key_of(const LiveNode& node, TopOrder order) {
    switch (order) {
        case TopOrder::cpu:
            return node.cpu_percent.value_or(0);
        case TopOrder::memory:
            return static_cast<double>(node.memory);
        case TopOrder::read:
            return node.read.value_or(0);
        case TopOrder::write:
            return node.written.value_or(0);
        case TopOrder::network:
            return network_of(node);
        case TopOrder::node:
        case TopOrder::rank:
            break;
    }
    return 0;
}

double key_of(const LiveRank& rank, TopOrder order) {
    switch (order) {
        case TopOrder::cpu:
            return rank.cpu_percent.value_or(0);
        case TopOrder::memory:
            return static_cast<double>(rank.memory);
        case TopOrder::read:
            return rank.read.value_or(0);
        case TopOrder::write:
            return rank.written.value_or(0);
        case TopOrder::rank:
            return -rank.rank;
        case TopOrder::node:
        case TopOrder::network:
            break;
    }
    return 0;
}

template <typename Item>
void sort_items(std::vector<Item>& items, TopOrder order) {
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
        return key_of(a, order) > key_of(b, order);
    });
}

cli::Table nodes_table(const std::vector<LiveNode>& nodes) {
    const bool gpus = std::any_of(nodes.begin(), nodes.end(),
                                  [](const LiveNode& node) { return !node.gpus.empty(); });
    cli::Table table{.headers = {"Node", "CPU%", "Mem MiB", "Peak"}, .rows = {}};
    if (gpus) table.headers.insert(table.headers.end(), {"GPU%", "GPU MiB", "Watt"});
    table.headers.insert(table.headers.end(),
                         {"Recv MiB/s", "Sent", "Read MiB/s", "Write", "Threads", "Age s"});
    for (const LiveNode& node : nodes) {
        std::vector<std::string> row{node.node, whole(node.cpu_percent), in_mebi(node.memory),
                                     in_mebi(node.peak)};
        if (gpus) row.insert(row.end(), 3, "");
        row.insert(row.end(),
                   {in_mebi(node.received), in_mebi(node.sent), in_mebi(node.read),
                    in_mebi(node.written), std::to_string(node.threads), whole(node.age)});
        table.rows.push_back(std::move(row));
        for (const record::GpuUsage& gpu : node.gpus) {
            std::vector<std::string> of_gpu(table.headers.size());
            of_gpu[0] = fmt::format("  gpu {}", gpu.index);
            of_gpu[4] = gpu.busy ? std::to_string(*gpu.busy) : "";
            of_gpu[5] = gpu.memory ? in_mebi(*gpu.memory) : "";
            of_gpu[6] = gpu.watts ? std::to_string(*gpu.watts) : "";
            table.rows.push_back(std::move(of_gpu));
        }
    }
    return table;
}

cli::Table ranks_table(const std::vector<LiveRank>& ranks) {
    const bool steps = std::any_of(ranks.begin(), ranks.end(), [&](const LiveRank& rank) {
        return rank.number != ranks.front().number;
    });
    const bool waits = std::any_of(ranks.begin(), ranks.end(), [&](const LiveRank& rank) {
        return rank.wait_percent.has_value();
    });
    cli::Table table{.headers = {"Rank", "Node", "CPU%"}, .rows = {}};
    if (waits) table.headers.emplace_back("Wait%");
    table.headers.insert(table.headers.end(), {"Mem MiB", "Threads", "Read MiB/s", "Write"});
    if (steps) table.headers.emplace_back("Step");
    for (const LiveRank& rank : ranks) {
        std::vector<std::string> row{std::to_string(rank.rank), rank.node, whole(rank.cpu_percent)};
        if (waits) row.push_back(whole(rank.wait_percent));
        row.insert(row.end(),
                   {in_mebi(rank.memory), rank.threads ? std::to_string(*rank.threads) : "",
                    in_mebi(rank.read), in_mebi(rank.written)});
        if (steps) row.push_back(std::to_string(rank.number));
        table.rows.push_back(std::move(row));
    }
    return table;
}

// Says which rank holds up the others, as a line with its newline; empty if none does.
std::string slow_rank_text(const std::vector<LiveRank>& ranks) {
    const auto slow = std::find_if(ranks.begin(), ranks.end(),
                                   [](const LiveRank& rank) { return rank.holds_up; });
    if (slow == ranks.end()) return {};
    return fmt::format("rank {} on {} holds up the others\n", slow->rank, slow->node);
}

std::size_t width_of(const std::string& text) {
    std::size_t widest = 0;
    for (const std::string_view line : base::split(text, '\n'))
        widest = std::max(widest, line.size());
    return widest;
}

// Leaves out columns at the end until the lines are short enough; the first two stay.
std::string fitting(cli::Table table, std::size_t width) {
    std::string text = cli::format_table(table);
    while (width > 0 && width_of(text) > width && table.headers.size() > 2) {
        table.headers.pop_back();
        for (auto& row : table.rows)
            row.pop_back();
        text = cli::format_table(table);
    }
    return text;
}

// Leaves out rows at the end, and says how many.
std::string shortened(const std::string& text, std::size_t height, std::string_view what) {
    auto lines = base::split(text, '\n');
    lines.pop_back();
    if (lines.size() <= height) return text;
    // The header stays.
    const std::size_t kept = std::max<std::size_t>(height, 3) - 1;
    if (kept + 1 >= lines.size()) return text;
    std::string out;
    for (std::size_t i = 0; i < kept; ++i)
        out += std::string(lines[i]) + '\n';
    return out + fmt::format("… {} more {}\n", lines.size() - kept, what);
}

}  // namespace

std::string top_text(const std::vector<LiveNode>& nodes, TopOrder order, TopSize size) {
    std::vector<LiveNode> sorted = nodes;
    std::vector<LiveRank> ranks;
    for (const LiveNode& node : nodes)
        ranks.insert(ranks.end(), node.ranks.begin(), node.ranks.end());
    sort_items(sorted, order);
    sort_items(ranks, order);
    std::string upper = fitting(nodes_table(sorted), size.width);
    const std::string slow = slow_rank_text(ranks);
    std::string lower = ranks.empty() ? "" : fitting(ranks_table(ranks), size.width);
    if (size.height > 0) {
        // The nodes have at most half of the lines, unless the ranks need less.
        const auto lines = [](const std::string& text) {
            return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        };
        const std::size_t used = slow.empty() ? 1 : 2;
        const std::size_t room = size.height > used ? size.height - used : 1;
        const std::size_t of_ranks =
            std::min(lines(lower), room - std::min(room / 2, lines(upper)));
        upper = shortened(upper, room - of_ranks, "nodes");
        lower = shortened(lower, room - std::min(room, lines(upper)), "ranks");
    }
    return lower.empty() ? upper : upper + '\n' + lower + slow;
}

}  // namespace batchai::status
