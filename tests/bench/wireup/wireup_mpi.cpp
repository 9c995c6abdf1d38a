// SPDX-License-Identifier: Apache-2.0
// One rank of the wire-up benchmark with an MPI; compiled once with each. They print their own
// message and end the ranks when a call fails.
#include <mpi.h>

#include "stopwatch.hpp"

int main() {
    const auto started = bench::now();
    MPI_Init(nullptr, nullptr);
    const auto initialised = bench::now();
    MPI_Barrier(MPI_COMM_WORLD);
    bench::report(started, initialised, bench::now());
    // MPICH 4.0.2 can wait for ever in MPI_Finalize over UCX's TCP transport. Nothing is measured
    // any more, so its ranks just end, once all have reported: its launcher ends the rest with the
    // first.
#ifdef MPICH_VERSION
    MPI_Barrier(MPI_COMM_WORLD);
#else
    MPI_Finalize();
#endif
}
