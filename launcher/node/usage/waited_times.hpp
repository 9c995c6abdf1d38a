// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>

#include <sys/types.h>

namespace batchai::node {

// How long, and how often, a rank has waited in collectives of mpi_bridge.
struct Waited {
    double seconds = 0;
    std::int64_t meetings = 0;
};

// Adds up what the processes of each rank show of it. Of several processes of a task, such as
// torchrun's, the one that waits least counts: it is the one that others wait for. Nothing that was
// told becomes less when processes end, or when they leave and join again.
class WaitedTimes {
  public:
    using Clock = std::chrono::steady_clock;

    // Looks into the processes, by rank. Returns the numbers of each rank of which a process shows
    // them now. A process that shows nothing is not looked into again for ten seconds.
    [[nodiscard]] const std::map<int, Waited>& look(const std::multimap<int, pid_t>& processes,
                                                    Clock::time_point now);

  private:
    struct Process {
        Waited shown;  // at the last look
        Waited total;
    };
    struct Rank {
        std::set<pid_t> processes;
        Waited before;  // of earlier processes
        Waited told;
    };

    std::map<pid_t, Clock::time_point> shows_nothing_until_;
    std::map<pid_t, Process> processes_;
    std::map<int, Rank> ranks_;
    std::map<int, Waited> told_;
};

}  // namespace batchai::node
