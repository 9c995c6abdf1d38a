// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

// Which ranks wait for which others. Pure.
namespace batchai::visit {

// Returns "rank 3" or "ranks 0-2, 5".
[[nodiscard]] std::string ranks_text(const std::set<int>& ranks);

class WaitGraph {
  public:
    // A process of the rank has been found.
    void add_rank(int rank) { ranks_.insert(rank); }
    void add_wait(int rank, int awaited) { waits_[rank].insert(awaited); }

    [[nodiscard]] const std::set<int>& ranks() const { return ranks_; }
    [[nodiscard]] bool waits(int rank) const { return waits_.contains(rank); }

    // Says in lines, of which each begins with the name, who waits for whom, directly or by way of
    // others.
    [[nodiscard]] std::string text(std::string_view name) const;

    // Returns the rank for which all waiting ranks wait, directly or by way of others, and which
    // waits for nobody. Returns nothing if there are several, or none.
    [[nodiscard]] std::optional<int> awaited_rank() const;

  private:
    [[nodiscard]] std::set<int> culprits_of(int rank) const;
    [[nodiscard]] std::string waiters_text(const std::set<int>& waiters,
                                           const std::set<int>& culprits) const;

    std::set<int> ranks_;
    std::map<int, std::set<int>> waits_;  // of a rank, for which ranks
};

}  // namespace batchai::visit
