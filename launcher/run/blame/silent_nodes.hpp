// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <set>
#include <string>

namespace batchai::run {

// Which nodes have answered pings before, and do no longer. That is only a suspicion: packets get
// lost, and firewalls change.
class SilentNodes {
  public:
    // So often in a row a node must not answer.
    static constexpr int least_misses = 2;

    // These nodes have answered since the last round.
    void round(const std::set<std::string>& answered) {
        is_any_ = false;
        for (const std::string& node : answered)
            misses_[node] = -1;
        for (auto& [node, misses] : misses_)
            is_any_ = ++misses >= least_misses || is_any_;
    }
    [[nodiscard]] bool is_any() const { return is_any_; }
    // The nodes live all the same. They must answer a ping before they are suspected again.
    void clear() {
        misses_.clear();
        is_any_ = false;
    }

  private:
    std::map<std::string, int> misses_;  // in a row, of those that have answered once
    bool is_any_ = false;
};

}  // namespace batchai::run
