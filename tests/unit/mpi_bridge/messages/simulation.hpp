// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace message_schedules {

struct Result {
    std::string fault;  // what went wrong; empty: nothing
    int events = 0;
    // How many messages ended in each of these ways.
    int received = 0;
    int cancelled = 0;
    int given_up = 0;
    int mismatched = 0;
    int left_behind = 0;
    // How many found a receive that had been posted, so that data behind their offer went there.
    int straight = 0;
};

// Lets some simulated ranks send and receive at random, in an order that follows from the seed: to
// and from one rank or any, with short and long data, sometimes of another length than is received.
// Receives are cancelled, messages given up, and ranks leave. Each rank has a Protocol; the network
// between them delivers in a random order what it may deliver in any.
//
// Checks that each message is received exactly once, and in the order sent; that a receive that
// fails, or is cancelled, takes no data; that memory is not used once its message is complete; and
// that nothing is stuck.
[[nodiscard]] Result simulate(std::uint64_t seed);

}  // namespace message_schedules
