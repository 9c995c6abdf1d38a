// SPDX-License-Identifier: Apache-2.0
// One rank of the wire-up benchmark with mpi_bridge.
#include <cstdio>
#include <cstdlib>

#include "mpi_bridge.h"
#include "stopwatch.hpp"

int main() {
    const auto started = bench::now();
    const bool joined = mpib_init() == MPIB_OK;
    const auto initialised = bench::now();
    if (!joined || mpib_barrier() != MPIB_OK) {
        std::fprintf(stderr, "wireup: %s\n", mpib_last_error());
        return EXIT_FAILURE;
    }
    bench::report(started, initialised, bench::now());
    return mpib_finalize() == MPIB_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
