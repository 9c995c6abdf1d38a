// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "program.hpp"

namespace schedules {

struct Result {
    std::string fault;  // what went wrong; empty: nothing
    int events = 0;
    int plans = 0;    // adopted, by all ranks together
    int planned = 0;  // buckets that ran from a plan
};

// Runs the program on simulated ranks, whose threads take turns in an order that follows from the
// seed. Each rank has the state machines of the engine for each process set it is in. What the
// engine does with threads and communicators is played here: a collective ends once all members
// have come to it, and each of them may notice that at any later time.
//
// Checks that all members come to each collective with the same contents, that they use their
// devices in the same order, that the same requests succeed or fail alike on all ranks, and that
// nothing is stuck.
[[nodiscard]] Result simulate(const Program& program, std::uint64_t seed);

}  // namespace schedules
