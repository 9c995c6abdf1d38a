// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

#include "record/usage.hpp"

namespace batchai::run {

struct WorkSeen {
    bool known = false;       // there are samples, so the rest means something
    bool ranks = false;       // some rank has done something
    bool gpus_known = false;  // there are samples of GPUs
    bool gpus = false;        // some GPU has done something
};

// Decides by the samples that the nodes take whether the ranks do anything. A rank does if it uses
// 5 % of a CPU, or if the ranks of a node copy 64 KiB/s by read() and write(): a program that only
// waits for others wakes up now and then. A GPU does if it is busy for 5 % of the time. The traffic
// of the network does not count, because it is that of the whole host.
class WorkMeter {
  public:
    // `start` is the name of the ranks' start, as in record::NodeUsage::step.
    explicit WorkMeter(std::string start) : start_(std::move(start)) {}

    // Returns what has been done since the last look. The first one, and the first one after
    // forget(), only tells whether there are samples, and which GPUs are busy now.
    [[nodiscard]] WorkSeen look(const std::vector<record::NodeUsage>& usage);
    // What the ranks do until the next look does not matter.
    void forget() { last_.clear(); }

  private:
    std::string start_;
    std::map<std::string, record::UsageSample> last_;  // by step and node
};

}  // namespace batchai::run
