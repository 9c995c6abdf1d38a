// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
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
    bool gpus_known = false;  // some node notes how busy its GPUs are
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

    // Returns what has been done since the last look. The first one, and the first one after
    // forget(), only tells whether there are samples. A node that has had no new sample for three
    // looks no longer counts as one that notes what its ranks do.
    [[nodiscard]] WorkSeen look(const std::vector<record::NodeUsage>& usage);
    // What the ranks do until the next look does not matter.
    void forget() { seen_.clear(); }

  private:
    struct Seen {
        record::UsageSample last;
        int looks_without = 0;  // since the last new sample
    };
    std::size_t nodes_;
    std::map<std::string, Seen> seen_;  // by step and node
};

}  // namespace batchai::run
