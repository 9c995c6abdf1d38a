// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>

#include <sys/types.h>

namespace batchai::node {

// Adds up how long the processes of each rank have been in collectives of mpi_bridge, as they show
// it. The time of processes that have ended, or that have left and joined again, counts as well.
class WaitedTimes {
  public:
    using Clock = std::chrono::steady_clock;

    // Looks into the processes, by rank. Returns the seconds of each rank of which any process has
    // shown them. A process that shows nothing is not looked into again for ten seconds.
    [[nodiscard]] const std::map<int, double>& look(const std::multimap<int, pid_t>& processes,
                                                    Clock::time_point now);

  private:
    std::map<pid_t, Clock::time_point> shows_nothing_until_;
    std::map<pid_t, double> of_process_;  // at the last look
    std::map<int, double> of_rank_;
};

}  // namespace batchai::node
