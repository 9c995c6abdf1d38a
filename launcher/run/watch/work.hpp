// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/timestamp.hpp"
#include "record/usage.hpp"

namespace batchai::run {

struct WorkSeen {
    bool known = false;       // some node still notes what its ranks do
    bool everywhere = false;  // and all nodes do
    bool ranks = false;       // some rank has done something
    bool gpus_known = false;  // the nodes with GPUs note how busy all of them are
    bool gpus = false;        // some GPU has done something
};

// Decides by the samples that the nodes take whether the ranks do anything. A rank does if it uses
// 5 % of a CPU, or if the ranks of a node copy 64 KiB/s by read() and write(): a program that only
// waits for others wakes up now and then. A GPU does if it is busy for 5 % of a sample. The traffic
// of the network does not count, because it is that of the whole host.
class WorkMeter {
  public:
    // The samples are those of record::newest_usage() for the ranks' start, which run on so many
    // nodes.
    explicit WorkMeter(std::size_t nodes) : nodes_(nodes) {}

    using Clock = std::chrono::steady_clock;

    // Returns what has been done since the last look. The first one, and the first one after
    // forget(), only tells whether there are samples. A node that has had no new sample for a
    // minute no longer counts as one that notes what its ranks do, unless they have ended.
    [[nodiscard]] WorkSeen look(const std::vector<record::NodeUsage>& usage, Clock::time_point now);
    // What the ranks do until the next look does not matter.
    void forget() { seen_.clear(); }

  private:
    struct Seen {
        record::UsageSample last;  // that was compared
        base::Time newest;         // of all samples
        Clock::time_point fresh;   // when a new sample was last seen
    };
    std::size_t nodes_;
    std::map<std::string, Seen> seen_;  // by step and node
};

}  // namespace batchai::run
