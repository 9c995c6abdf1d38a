// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/timestamp.hpp"
#include "plan/steps.hpp"
#include "record/usage.hpp"
#include "run/watch/stall.hpp"

namespace batchai::run {

// Finds ranks that need much longer than the others between collectives of mpi_bridge, by the time
// that the nodes note that each rank has waited in them. A rank counts as slow if it is in each
// quarter of the time that is watched: one that writes a checkpoint is slow in one of them. Nobody
// does if the others hardly work at all, as while they wait for the evaluation of one rank.
class SlowRankMeter {
  public:
    explicit SlowRankMeter(const plan::Watch& watch) : watch_(watch) {}

    // The samples are those of record::newest_usage() for the ranks' start.
    void look(const std::vector<record::NodeUsage>& usage);
    // Returns what has changed since the last call.
    [[nodiscard]] std::optional<StallChange> poll();
    // Returns whether some rank is slow, as was told.
    [[nodiscard]] bool is_slow() const { return told_; }

  private:
    struct Point {
        base::Time time;
        double waited = 0;  // seconds until then
    };
    struct Rank {
        std::string node;
        std::deque<Point> points;
        int looks_without_news = 0;
    };

    [[nodiscard]] std::vector<SlowRank> slow_in(int first_quarter, int end) const;
    [[nodiscard]] std::vector<SlowRank> slow_ranks() const;

    const plan::Watch& watch_;
    std::map<int, Rank> ranks_;
    bool told_ = false;
};

}  // namespace batchai::run
