// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/wait_graph.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace batchai::visit {

std::string ranks_text(const std::set<int>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                       base::number_ranges({ranks.begin(), ranks.end()}, ", "));
}

// The ranks that it waits for, or that those wait for, which wait for nobody.
std::set<int> WaitGraph::culprits_of(int rank) const {
    std::set<int> culprits;
    std::set<int> seen{rank};
    std::vector<int> left{rank};
    while (!left.empty()) {
        const auto waits = waits_.find(left.back());
        if (waits == waits_.end()) culprits.insert(left.back());
        left.pop_back();
        if (waits == waits_.end()) continue;
        for (const int next : waits->second) {
            if (seen.insert(next).second) left.push_back(next);
        }
    }
    return culprits;
}

std::string WaitGraph::text(std::string_view name, std::string_view idle) const {
    // Those who wait for the same ranks are named together.
    std::map<std::set<int>, std::set<int>> waiters_by_culprits;
    for (const auto& [rank, awaited] : waits_)
        waiters_by_culprits[culprits_of(rank)].insert(rank);
    std::string text;
    for (const auto& [culprits, waiters] : waiters_by_culprits)
        text += fmt::format("{}: {}\n", name, waiters_text(waiters, culprits, idle));
    return text;
}

std::string WaitGraph::waiters_text(const std::set<int>& waiters, const std::set<int>& culprits,
                                    std::string_view idle) const {
    const std::string waiting =
        fmt::format("{} {}", ranks_text(waiters), waiters.size() == 1 ? "waits" : "wait");
    if (culprits.empty()) return waiting + " for each other";
    std::set<int> without_process;
    std::set<int> silent;
    for (const int rank : culprits) {
        if (rank == somebody) continue;
        if (silent_.contains(rank))
            silent.insert(rank);
        else if (!ranks_.contains(rank))
            without_process.insert(rank);
    }
    // What is not known comes before those who seem to be idle.
    std::vector<std::string> unknown;
    if (!without_process.empty())
        unknown.push_back(
            fmt::format("for {}, of which no process was found", ranks_text(without_process)));
    if (!silent.empty())
        unknown.push_back(fmt::format("for {}, which {} nothing", ranks_text(silent),
                                      silent.size() == 1 ? "tells" : "tell"));
    if (culprits.contains(somebody)) unknown.emplace_back("for a rank that cannot be told");
    if (!unknown.empty()) return fmt::format("{} {}", waiting, fmt::join(unknown, ", and "));
    return fmt::format("{} for {}, which {} {}", waiting, ranks_text(culprits),
                       culprits.size() == 1 ? "waits" : "wait", idle);
}

std::optional<int> WaitGraph::awaited_rank() const {
    std::set<int> awaited;
    for (const auto& [rank, others] : waits_) {
        const std::set<int> culprits = culprits_of(rank);
        if (culprits.empty()) return std::nullopt;
        awaited.insert(culprits.begin(), culprits.end());
    }
    if (awaited.size() != 1) return std::nullopt;
    const int rank = *awaited.begin();
    return ranks_.contains(rank) && !silent_.contains(rank) ? std::optional(rank) : std::nullopt;
}

}  // namespace batchai::visit
