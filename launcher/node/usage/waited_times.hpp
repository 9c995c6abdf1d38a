// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>

#include <sys/types.h>

namespace batchai::node {

// Adds up how long each rank has waited in collectives of mpi_bridge, as its processes show it. Of
// several processes of a task, such as torchrun's, the one that waits least counts: it is the one
// that others wait for. The time of processes that have ended, or that have left and joined again,
// counts as well.
class WaitedTimes {
  public:
    using Clock = std::chrono::steady_clock;

    // Looks into the processes, by rank. Returns the seconds of each rank of which a process shows
    // them now. A process that shows nothing is not looked into again for ten seconds.
    [[nodiscard]] const std::map<int, double>& look(const std::multimap<int, pid_t>& processes,
                                                    Clock::time_point now);

  private:
    std::map<pid_t, Clock::time_point> shows_nothing_until_;
    std::map<pid_t, double> of_process_;  // at the last look
    std::map<int, double> of_rank_;
    std::map<int, double> tell_;
};

}  // namespace batchai::node
