// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/bridges.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "visit/stacks/groups.hpp"

namespace batchai::visit {

namespace {

// What the ranks of mpi_bridge tell together.
class Bridges {
  public:
    explicit Bridges(const std::vector<NodeStacks>& nodes) {
        const std::string step = step_of_ranks(nodes);
        for (const NodeStacks& node : nodes) {
            for (const JobProcess& process : node.processes) {
                if (process.bridge && process.step == step) add(*process.bridge);
            }
        }
    }

    // The ones that have been open longest come first.
    [[nodiscard]] std::string operations_text() const {
        std::vector<const Operation*> operations;
        for (const auto& [key, operation] : operations_)
            operations.push_back(&operation);
        std::stable_sort(operations.begin(), operations.end(),
                         [](const auto* a, const auto* b) { return a->seconds > b->seconds; });
        std::string text;
        for (std::size_t i = 0; i < operations.size() && i < most_operations; ++i)
            text += text_of(*operations[i]);
        if (operations.size() > most_operations)
            text += fmt::format("mpi_bridge: and {} more\n", operations.size() - most_operations);
        return text;
    }

    [[nodiscard]] std::string waits_text() const {
        // Those who wait for the same ranks, directly or by way of others, are named together.
        std::map<std::set<int>, std::set<int>> waiters_by_culprits;
        for (const auto& [rank, awaited] : waits_)
            waiters_by_culprits[culprits_of(rank)].insert(rank);
        std::string text;
        for (const auto& [culprits, waiters] : waiters_by_culprits)
            text += waits_text(waiters, culprits);
        return text;
    }

    [[nodiscard]] std::optional<int> awaited_rank() const {
        std::set<int> awaited;
        for (const auto& [rank, others] : waits_) {
            const std::set<int> culprits = culprits_of(rank);
            if (culprits.empty()) return std::nullopt;
            awaited.insert(culprits.begin(), culprits.end());
        }
        if (awaited.size() != 1 || !ranks_.contains(*awaited.begin())) return std::nullopt;
        return *awaited.begin();
    }

  private:
    static constexpr std::size_t most_operations = 5;

    struct Operation {
        const OpenOperation* what = nullptr;
        std::int64_t seconds = 0;
        std::set<int> ranks;
    };

    static std::vector<int> list(const std::set<int>& ranks) {
        return {ranks.begin(), ranks.end()};
    }
    static std::string ranks_text(const std::vector<int>& ranks) {
        return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                           base::number_ranges(ranks, ", "));
    }

    void add(const BridgeState& state) {
        ranks_.insert(state.rank);
        if (!state.waits_for.empty()) waits_[state.rank] = state.waits_for;
        for (const OpenOperation& open : state.operations) {
            if (open.kind == "join") {
                joined_.insert(state.rank);
                continue;
            }
            Operation& operation = operations_[{open.process_set, open.kind, open.name}];
            operation.what = &open;
            operation.seconds = std::max(operation.seconds, open.seconds);
            operation.ranks.insert(state.rank);
        }
    }

    // The ranks that it waits for, or that those wait for, which wait for nobody.
    [[nodiscard]] std::set<int> culprits_of(int rank) const {
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

    [[nodiscard]] std::string waits_text(const std::set<int>& waiters,
                                         const std::set<int>& culprits) const {
        const std::string waiting = fmt::format("mpi_bridge: {} {}", ranks_text(list(waiters)),
                                                waiters.size() == 1 ? "waits" : "wait");
        if (culprits.empty()) return waiting + " for each other\n";
        std::vector<int> without_process;
        std::set_difference(culprits.begin(), culprits.end(), ranks_.begin(), ranks_.end(),
                            std::back_inserter(without_process));
        if (!without_process.empty())
            return fmt::format("{} for {}, of which no process was found\n", waiting,
                               ranks_text(without_process));
        return fmt::format("{} for {}, which {} for nobody\n", waiting, ranks_text(list(culprits)),
                           culprits.size() == 1 ? "waits" : "wait");
    }

    [[nodiscard]] std::string text_of(const Operation& operation) const {
        std::string text =
            fmt::format("mpi_bridge: {} {} has been open for {} s on {}", operation.what->kind,
                        operation.what->name, operation.seconds, ranks_text(list(operation.ranks)));
        if (operation.what->process_set != 0)
            return text + fmt::format(", in process set {}\n", operation.what->process_set);
        // A rank that waits for others in a message may have had no time to show its operations.
        std::vector<int> missing;
        for (const int rank : ranks_) {
            if (!operation.ranks.contains(rank) && !joined_.contains(rank) &&
                !waits_.contains(rank))
                missing.push_back(rank);
        }
        if (missing.empty()) return text + '\n';
        return text + fmt::format("; {} {} not submitted it, or did so less than 2 s ago\n",
                                  ranks_text(missing), missing.size() == 1 ? "has" : "have");
    }

    std::set<int> ranks_;
    std::set<int> joined_;
    std::map<int, std::vector<int>> waits_;  // of a rank, for which ranks
    std::map<std::tuple<int, std::string, std::string>, Operation> operations_;
};

}  // namespace

std::string bridge_text(const std::vector<NodeStacks>& nodes) {
    const Bridges bridges(nodes);
    return bridges.operations_text() + bridges.waits_text();
}

std::optional<int> awaited_rank(const std::vector<NodeStacks>& nodes) {
    return Bridges(nodes).awaited_rank();
}

}  // namespace batchai::visit
