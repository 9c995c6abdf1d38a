// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "channel.hpp"
#include "program.hpp"
#include "simulation.hpp"

namespace schedules {

struct ProcessSet {
    explicit ProcessSet(const std::vector<int>& ranks)
        : members(ranks), control(ranks.size()), negotiated(ranks.size()), planned(ranks.size()) {}

    std::vector<int> members;
    Channel control;
    Channel negotiated;
    Channel planned;
    // By rank: the groups on device memory in the order in which it has enqueued them.
    std::map<int, std::vector<std::string>> enqueued;
    // The buckets that a rank had started of a plan with device memory when a set was added, by
    // that set's number.
    std::map<int, std::set<std::uint64_t>> started_at_change;
};

// What the simulated ranks have in common.
struct Shared {
    const Program& program;
    Result result;
    std::map<int, std::shared_ptr<ProcessSet>> sets;  // by the program's number of the set
    bool somebody_lost = false;
    // How a request ended on the ranks, by its set, its name and how often that was used before.
    std::map<std::tuple<int, std::string, int>, std::set<int>> outcomes;

    void fault(std::string text) {
        if (result.fault.empty()) result.fault = std::move(text);
    }
};

}  // namespace schedules
