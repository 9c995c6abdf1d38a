// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/bridges.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "visit/stacks/groups.hpp"
#include "visit/stacks/wait_graph.hpp"

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

    [[nodiscard]] const WaitGraph& waits() const { return waits_; }

  private:
    static constexpr std::size_t most_operations = 5;

    struct Operation {
        const OpenOperation* what = nullptr;
        std::int64_t seconds = 0;
        std::set<int> ranks;
    };

    void add(const BridgeState& state) {
        waits_.add_rank(state.rank);
        for (const int awaited : state.waits_for)
            waits_.add_wait(state.rank, awaited);
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

    [[nodiscard]] std::string text_of(const Operation& operation) const {
        std::string text =
            fmt::format("mpi_bridge: {} {} has been open for {} s on {}", operation.what->kind,
                        operation.what->name, operation.seconds, ranks_text(operation.ranks));
        if (operation.what->process_set != 0)
            return text + fmt::format(", in process set {}\n", operation.what->process_set);
        // A rank that waits for others in a message may have had no time to show its operations.
        std::set<int> missing;
        for (const int rank : waits_.ranks()) {
            if (!operation.ranks.contains(rank) && !joined_.contains(rank) && !waits_.waits(rank))
                missing.insert(rank);
        }
        if (missing.empty()) return text + '\n';
        return text + fmt::format("; {} {} not submitted it, or did so less than 2 s ago\n",
                                  ranks_text(missing), missing.size() == 1 ? "has" : "have");
    }

    WaitGraph waits_;
    std::set<int> joined_;
    std::map<std::tuple<int, std::string, std::string>, Operation> operations_;
};

}  // namespace

std::string bridge_text(const std::vector<NodeStacks>& nodes) {
    const Bridges bridges(nodes);
    return bridges.operations_text() + bridges.waits().text("mpi_bridge");
}

std::optional<int> awaited_rank(const std::vector<NodeStacks>& nodes) {
    return Bridges(nodes).waits().awaited_rank();
}

}  // namespace batchai::visit
