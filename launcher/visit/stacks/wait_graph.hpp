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
    // Its process exists, but does not tell for whom it waits.
    void add_silent(int rank) { silent_.insert(rank); }
    void add_wait(int rank, int awaited) { waits_[rank].insert(awaited); }
    // For a rank that cannot be told.
    void add_wait_for_somebody(int rank) { waits_[rank].insert(somebody); }

    [[nodiscard]] const std::set<int>& ranks() const { return ranks_; }
    [[nodiscard]] bool waits(int rank) const { return waits_.contains(rank); }

    // Says in lines, of which each begins with the name, who waits for whom, directly or by way of
    // others. `idle` says for whom a rank waits of which no wait is known.
    [[nodiscard]] std::string text(std::string_view name,
                                   std::string_view idle = "for nobody") const;

    // Returns the rank for which all waiting ranks wait, directly or by way of others, and which
    // waits for nobody. Returns nothing if there are several, or none, or if it may wait for others
    // without saying so.
    [[nodiscard]] std::optional<int> awaited_rank() const;

  private:
    static constexpr int somebody = -1;

    [[nodiscard]] std::set<int> culprits_of(int rank) const;
    [[nodiscard]] std::string waiters_text(const std::set<int>& waiters,
                                           const std::set<int>& culprits,
                                           std::string_view idle) const;

    std::set<int> ranks_;
    std::set<int> silent_;
    std::map<int, std::set<int>> waits_;  // of a rank, for which ranks
};

}  // namespace batchai::visit
