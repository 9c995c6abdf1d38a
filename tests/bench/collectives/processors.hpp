// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <vector>

#include <sched.h>

namespace bench {

// The processors that the calling thread may use, ascending.
inline std::vector<unsigned> allowed_processors() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        throw std::runtime_error("sched_getaffinity failed");
    std::vector<unsigned> found;
    for (unsigned i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &allowed)) found.push_back(i);
    return found;
}

// Keeps the calling thread, and those it starts later, on one processor.
inline void stay_on(unsigned processor) {
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    CPU_SET(processor, &chosen);
    if (sched_setaffinity(0, sizeof chosen, &chosen) != 0)
        throw std::runtime_error("sched_setaffinity failed");
}

}  // namespace bench
