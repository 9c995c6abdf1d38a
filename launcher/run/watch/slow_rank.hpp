// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/timestamp.hpp"
#include "plan/steps.hpp"
#include "record/usage.hpp"
#include "run/watch/stall.hpp"

namespace batchai::run {

// Finds ranks that need much longer than the others between collectives of mpi_bridge, by the time
// that the nodes note that each rank has waited in them. The time that is watched is cut into ten
// slices: a rank counts as slow if it is in most of them, so one that evaluates for a part of the
// time does not. Nobody counts as slow if the others hardly work at all, if they lose little by it,
// or if its own time of waiting does not grow: it may have left, or wait for something else.
class SlowRankMeter {
  public:
    explicit SlowRankMeter(const plan::Watch& watch) : watch_(watch) {}

    // The samples are those of record::newest_usage() for the ranks' start.
    void look(const std::vector<record::NodeUsage>& usage);
    // Returns what has changed by the last look: all ranks that are slow, if some have not been
    // told of, or that none is any more.
    [[nodiscard]] std::optional<StallChange> poll();
    // Returns whether some rank is slow, as was told.
    [[nodiscard]] bool is_slow() const { return !told_.empty(); }
    // Returns whether it is known of two ranks how long they wait.
    [[nodiscard]] bool can_compare() const { return ranks_.size() >= 2; }

  private:
    struct Point {
        base::Time time;
        double waited = 0;  // seconds until then
        std::int64_t meetings = 0;
    };
    struct Rank {
        std::string node;
        std::deque<Point> points;
        int looks_without_news = 0;
    };

    // In the time from one slice to another. Nothing: it is not known of some rank.
    [[nodiscard]] std::optional<std::vector<SlowRank>> slow_in(int first_slice, int end) const;
    [[nodiscard]] std::vector<SlowRank> slow_ranks() const;

    const plan::Watch& watch_;
    std::map<int, Rank> ranks_;
    std::set<int> told_;
    base::Time newest_{};                  // of all samples
    std::optional<base::Time> new_since_;  // some rank is slow that has not been told of
    bool has_news_ = false;                // since the last poll()
};

}  // namespace batchai::run
