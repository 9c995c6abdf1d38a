// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "status/history/facts.hpp"
#include "status/history/phases.hpp"

// The phases of each node on an axis of time, for the terminal.
namespace batchai::status {

struct ChartStyle {
    int width = 80;  // of the terminal
    bool utf8 = false;
    // Bars are coloured. Without colour, they consist of the first letter of their phase.
    bool colour = false;
};

[[nodiscard]] std::string chart_of(const Facts& facts, const std::vector<AttemptBars>& attempts,
                                   const ChartStyle& style);

}  // namespace batchai::status
