// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/waited_times.hpp"

#include "node/stacks/bridge_state.hpp"

namespace batchai::node {

const std::map<int, double>& WaitedTimes::look(const std::multimap<int, pid_t>& processes,
                                               Clock::time_point now) {
    constexpr std::chrono::seconds until_next_look{10};
    std::erase_if(shows_nothing_until_, [&](const auto& one) { return one.second <= now; });
    for (const auto& [rank, process] : processes) {
        if (shows_nothing_until_.contains(process)) continue;
        const auto look = look_at_bridge(process);
        if (!look) {
            shows_nothing_until_[process] = now + until_next_look;
            continue;
        }
        // A process that joins again begins again.
        double& before = of_process_[process];
        of_rank_[rank] += look->waited < before ? look->waited : look->waited - before;
        before = look->waited;
    }
    return of_rank_;
}

}  // namespace batchai::node
