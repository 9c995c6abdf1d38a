// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/waited_times.hpp"

#include <algorithm>
#include <utility>

#include "node/stacks/bridge_state.hpp"

namespace batchai::node {

const std::map<int, Waited>& WaitedTimes::look(const std::multimap<int, pid_t>& processes,
                                               Clock::time_point now) {
    constexpr std::chrono::seconds until_next_look{10};
    std::erase_if(shows_nothing_until_, [&](const auto& one) { return one.second <= now; });
    std::map<int, std::set<pid_t>> showing;
    for (const auto& [rank, process] : processes) {
        if (shows_nothing_until_.contains(process)) continue;
        const auto look = look_at_bridge(process);
        if (!look) {
            shows_nothing_until_[process] = now + until_next_look;
            continue;
        }
        // A process that joins again begins again.
        Process& known = processes_[process];
        const bool begins = look->meetings < known.shown.meetings;
        const Waited shown{.seconds = look->waited, .meetings = look->meetings};
        known.total.seconds += shown.seconds - (begins ? 0 : known.shown.seconds);
        known.total.meetings += shown.meetings - (begins ? 0 : known.shown.meetings);
        known.shown = shown;
        showing[rank].insert(process);
    }
    told_.clear();
    for (auto& [number, of_rank] : showing) {
        const pid_t least =
            *std::min_element(of_rank.begin(), of_rank.end(), [&](pid_t a, pid_t b) {
                return processes_[a].total.seconds < processes_[b].total.seconds;
            });
        const Waited total = processes_[least].total;
        Rank& rank = ranks_[number];
        if (rank.processes != of_rank) {
            // The first ones have been waiting before they were seen.
            const bool is_first = rank.processes.empty();
            rank.processes = std::move(of_rank);
            if (!is_first)
                rank.before = {.seconds = rank.told.seconds - total.seconds,
                               .meetings = rank.told.meetings - total.meetings};
        }
        rank.told.seconds = std::max(rank.told.seconds, rank.before.seconds + total.seconds);
        rank.told.meetings = std::max(rank.told.meetings, rank.before.meetings + total.meetings);
        told_[number] = rank.told;
    }
    return told_;
}

}  // namespace batchai::node
