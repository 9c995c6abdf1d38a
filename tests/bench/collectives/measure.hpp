// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "library.hpp"

namespace bench {

// One size of the vector, measured. Times are of one allreduce: of every iteration the rank that
// needed longest counts, and of these times the median, the tenth and the ninetieth percentile.
struct Point {
    std::size_t bytes;
    int iterations;
    double median_us;
    double tenth_us;
    double ninetieth_us;
    // What came in over network interfaces other than loopback during one iteration, on the rank
    // that received least: tells that the data did go over the network where it should. Each rank
    // receives at least its `bytes`.
    double received_bytes;
};

// Checks every element of a sum of `count` floats that is exact in any order of additions; throws
// when one is wrong.
void check(Library& library, float* data, std::size_t count);

// Times back-to-back calls, about as many as take `budget`. All ranks must call it alike; all get
// the same result.
[[nodiscard]] Point measure(Library& library, float* data, std::size_t count,
                            std::chrono::duration<double> budget);

// What one look at the clock costs: it is part of every time above.
[[nodiscard]] double nanoseconds_of_a_timestamp();

}  // namespace bench
