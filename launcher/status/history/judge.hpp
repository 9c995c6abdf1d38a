// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "status/history/facts.hpp"
#include "status/history/phases.hpp"
#include "status/history/speed.hpp"

// What could be better, and which setting to change. Nothing is read or asked here.
namespace batchai::status {

struct Advice {
    std::string code;  // "preparation", "slowRank", …, for programs
    std::string text;  // whole sentences

    bool operator==(const Advice&) const = default;
};

[[nodiscard]] std::vector<Advice> advice_for(const Facts& facts,
                                             const std::vector<AttemptBars>& attempts,
                                             const Speed& speed);

// Says why nothing is known about the ranks' speed, and how to change that; empty if it is known.
[[nodiscard]] std::string why_no_speed(const Facts& facts, const Speed& speed);

}  // namespace batchai::status
