// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/waited_times.hpp"

#include <algorithm>

#include "node/stacks/bridge_state.hpp"

namespace batchai::node {

const std::map<int, double>& WaitedTimes::look(const std::multimap<int, pid_t>& processes,
                                               Clock::time_point now) {
    constexpr std::chrono::seconds until_next_look{10};
    std::erase_if(shows_nothing_until_, [&](const auto& one) { return one.second <= now; });
    std::map<int, double> grown;
    for (const auto& [rank, process] : processes) {
        if (shows_nothing_until_.contains(process)) continue;
        const auto look = look_at_bridge(process);
        if (!look) {
            shows_nothing_until_[process] = now + until_next_look;
            continue;
        }
        // A process that joins again begins again.
        double& before = of_process_[process];
        const double more = look->waited < before ? look->waited : look->waited - before;
        before = look->waited;
        const auto [known, is_first] = grown.try_emplace(rank, more);
        if (!is_first) known->second = std::min(known->second, more);
    }
    tell_.clear();
    for (const auto& [rank, more] : grown)
        tell_[rank] = of_rank_[rank] += more;
    return tell_;
}

}  // namespace batchai::node
