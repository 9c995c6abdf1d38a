// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "subject.hpp"

namespace bench {

// One size of the vector, measured. Times are of one call: of every iteration the rank that needed
// longest counts, and of these times the median, the tenth and the ninetieth percentile.
struct Point {
    std::size_t bytes;
    int iterations;
    double median_us;
    double tenth_us;
    double ninetieth_us;
    // What came in over network interfaces other than loopback during one iteration, on the rank
    // that received least and on the one that received most: tells that the data did go over the
    // network where it should.
    double least_received_bytes;
    double most_received_bytes;
};

// Times back-to-back runs, about as many as take `budget`. All ranks must call it alike; all get
// the same result.
[[nodiscard]] Point measure(Team& team, Work& work, std::chrono::duration<double> budget);

// What one look at the clock costs: it is part of every time above.
[[nodiscard]] double nanoseconds_of_a_timestamp();

}  // namespace bench
