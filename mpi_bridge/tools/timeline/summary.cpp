// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/summary.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace mpi_bridge::timeline_tool {
namespace {

constexpr std::string_view negotiate_prefix = "NEGOTIATE_";

bool begins(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

// "allreduce.noname.17" becomes "allreduce.noname.*".
std::string without_number(std::string name) {
    constexpr std::string_view mark = ".noname.";
    const auto at = name.rfind(mark);
    if (at == std::string::npos) return name;
    const auto number = name.begin() + static_cast<std::ptrdiff_t>(at + mark.size());
    const auto end = std::find_if(number, name.end(),
                                  [](unsigned char byte) { return std::isdigit(byte) == 0; });
    if (end == number) return name;
    name.replace(number, end, "*");
    return name;
}

// The tensor that a row shows; device rows count as the tensor's own. "" for the engine's rows.
std::string tensor_of(std::string title) {
    constexpr std::string_view device = " (device)";
    if (title.size() > device.size() &&
        title.compare(title.size() - device.size(), device.size(), device) == 0) {
        title.resize(title.size() - device.size());
    }
    if (title == "engine" || begins(title, "engine (process set ")) return "";
    return without_number(std::move(title));
}

double* part_of(TimeSpent& spent, std::string_view activity) {
    if (activity == "QUEUE" || begins(activity, "WAIT_FOR_")) return &spent.wait;
    if (begins(activity, "MEMCPY_") || begins(activity, "COPY_")) return &spent.copy;
    if (begins(activity, "SHM_") || begins(activity, "UCX_") || begins(activity, "NCCL_")) {
        return &spent.transfer;
    }
    return nullptr;
}

}  // namespace

void Summary::add(const TraceEvent& event) {
    if (event.type == 'M') {
        add_metadata(event);
        return;
    }
    const auto extent = extent_.try_emplace(event.rank, event.time, event.time).first;
    extent->second.first = std::min(extent->second.first, event.time);
    extent->second.second = std::max(extent->second.second, event.time);

    Row& row = rows_[{event.rank, event.row}];
    switch (event.type) {
        case 'B':
            add_begin(event, row);
            break;
        case 'E':
            add_end(event, row);
            break;
        case 'X':
            add_time(row, event.rank, event.name, event.duration().value_or(0), false);
            break;
        case 'i':
            if (event.name == "events dropped") {
                dropped_ += static_cast<std::uint64_t>(event.number("count").value_or(0));
            } else {
                add_tick(event, row);
            }
            break;
        default:
            break;  // other programs' events
    }
}

void Summary::add_metadata(const TraceEvent& event) {
    const auto name = event.text("name");
    if (!name) return;
    if (event.name == "process_name") processes_[event.rank] = *name;
    if (event.name == "thread_name") rows_[{event.rank, event.row}].tensor = tensor_of(*name);
}

void Summary::add_begin(const TraceEvent& event, Row& row) {
    if (row.open.empty() && !row.tensor.empty()) {
        TensorSummary& tensor = tensors_[row.tensor];
        if (begins(event.name, negotiate_prefix)) {
            tensor.operation = event.name.substr(negotiate_prefix.size());
        } else {
            tensor.operation = event.name;
            tensor.ranks[event.rank].bytes += event.number("bytes").value_or(0);
        }
    }
    row.open.push_back({event.name, event.time});
}

void Summary::add_end(const TraceEvent& event, Row& row) {
    if (row.open.empty()) return;
    const Open ended = std::move(row.open.back());
    row.open.pop_back();
    const bool outermost = row.open.empty();
    if (begins(ended.name, negotiate_prefix)) end_negotiation(row);
    add_time(row, event.rank, ended.name, event.time - ended.since, outermost);
    if (outermost && event.object.contains("args")) ++failed_;
}

void Summary::add_tick(const TraceEvent& event, Row& row) {
    const auto rank = event.number("rank");
    if (!rank) return;
    if (!row.first_tick) row.first_tick = event.time;
    row.last_tick = event.time;
    row.last_rank = static_cast<int>(*rank);
}

void Summary::end_negotiation(Row& row) {
    if (!row.first_tick) return;
    LastTicks& ticks = tensors_[row.tensor].ticks;
    ++ticks.negotiations;
    ++ticks.times[row.last_rank];
    ticks.spread += row.last_tick - *row.first_tick;
    row.first_tick.reset();
}

void Summary::add_time(const Row& row, int rank, const std::string& activity, double time,
                       bool outermost) {
    if (row.tensor.empty()) return;
    TimeSpent& spent = tensors_[row.tensor].ranks[rank];
    if (begins(activity, negotiate_prefix)) {
        spent.negotiate += time;
    } else if (outermost) {
        spent.operation += time;
        ++spent.operations;
    } else if (double* part = part_of(spent, activity); part != nullptr) {
        *part += time;
    }
}

void Summary::finish() {
    for (const auto& [where, row] : rows_) {
        for (const Open& open : row.open) {
            const std::string tensor = row.tensor.empty() ? "engine" : row.tensor;
            unfinished_[{tensor, open.name}].insert(where.first);
        }
    }
}

double Summary::duration() const {
    double longest = 0;
    for (const auto& [rank, extent] : extent_)
        longest = std::max(longest, extent.second - extent.first);
    return longest;
}

std::optional<LateRank> late_rank(const TensorSummary& tensor) {
    const LastTicks& ticks = tensor.ticks;
    if (ticks.negotiations > 0) {
        const auto most =
            std::max_element(ticks.times.begin(), ticks.times.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        const auto count = static_cast<double>(ticks.negotiations);
        return LateRank{most->first, ticks.spread / count,
                        static_cast<double>(most->second) / count};
    }
    std::optional<LateRank> shortest;
    double sum = 0;
    int ranks = 0;
    for (const auto& [rank, spent] : tensor.ranks) {
        if (spent.operations == 0) continue;
        if (!shortest || spent.mean() < shortest->by) shortest = LateRank{rank, spent.mean(), -1};
        sum += spent.mean();
        ++ranks;
    }
    if (ranks < 2) return std::nullopt;
    // How much longer the others took.
    return LateRank{shortest->rank, (sum - ranks * shortest->by) / (ranks - 1), -1};
}

}  // namespace mpi_bridge::timeline_tool
