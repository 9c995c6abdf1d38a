// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "status/history/events.hpp"
#include "status/history/facts.hpp"
#include "status/history/judge.hpp"
#include "status/history/phases.hpp"
#include "status/history/resources.hpp"
#include "status/history/speed.hpp"

namespace batchai::status {

// Everything that a report says, before it becomes a page or JSON.
struct Findings {
    const Facts& facts;
    std::vector<AttemptBars> attempts;
    std::vector<Event> events;
    Speed speed;
    std::string why_no_speed;
    std::vector<std::pair<int, std::vector<NodeResources>>> resources;  // by attempt
    std::vector<Advice> advice;
};

// The facts must outlive what is returned.
[[nodiscard]] Findings judge(const Facts& facts);

}  // namespace batchai::status
