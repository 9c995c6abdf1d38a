// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

namespace batchai::status {

// The marks of an axis of time that is `seconds` long, from 0 on: round times, at most `most` of
// them after the first.
struct Tick {
    double seconds = 0;
    std::string text;  // "0", "30 s", "1 min 30 s", …
};
[[nodiscard]] std::vector<Tick> ticks_of(double seconds, int most);

// Returns a round number that is not less than `number`, and not much more.
[[nodiscard]] double round_up(double number);

}  // namespace batchai::status
