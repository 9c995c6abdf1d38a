// SPDX-License-Identifier: Apache-2.0
//
// To be started as at least two ranks. The last rank does something wrong, and the others must
// notice within a few seconds, with the right status and a message that names that rank.
//
//   mpi_bridge_faults late      it does not come to the barrier in time: MPIB_ERROR_TIMEOUT
//   mpi_bridge_faults leaves    it finalises and ends instead:           MPIB_ERROR_PEER_LOST
//   mpi_bridge_faults mismatch  it reduces another number of elements:   MPIB_ERROR_MISMATCH
//
// Every rank that got what was expected exits with 0; rank 0 prints the message it got.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "mpi_bridge.h"

namespace {

constexpr double timeout_seconds = 3;
constexpr double longest_seconds = 20;

int complain(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_faults: rank %d: %s\n", mpib_rank(), what.c_str());
    return 1;
}

// The neighbours of the culprit must see `expected`; ranks further away may only notice that a
// neighbour gave up.
int judge(mpib_status got, mpib_status expected, double seconds) {
    const std::string text = mpib_last_error();
    const bool acceptable = got == expected || got == MPIB_ERROR_PEER_LOST;
    if (!acceptable) {
        return complain(std::string("got ") + mpib_status_name(got) + " where " +
                        mpib_status_name(expected) + " was expected: " + text);
    }
    if (seconds > longest_seconds) return complain("noticed too late");
    if (text.find("rank ") == std::string::npos) return complain("no rank is named: " + text);
    if (mpib_barrier() != got) return complain("a call after the failure was not refused");
    if (mpib_rank() == 0) {
        std::printf("mpi_bridge_faults: %s: %s\n", mpib_status_name(got), text.c_str());
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc == 2 ? argv[1] : "";
    if (mode != "late" && mode != "leaves" && mode != "mismatch") {
        std::fprintf(stderr, "usage: mpi_bridge_faults late|leaves|mismatch\n");
        return 2;
    }
    if (mpib_init() != MPIB_OK || mpib_size() < 2) return complain("needs two ranks or more");
    if (mpib_barrier() != MPIB_OK) return complain(mpib_last_error());
    if (mpib_set_timeout(timeout_seconds) != MPIB_OK) return complain(mpib_last_error());

    const bool culprit = mpib_rank() == mpib_size() - 1;
    if (culprit && mode == "leaves") return 0;
    if (culprit && mode == "late") sleep(static_cast<unsigned>(timeout_seconds) * 2);

    std::vector<float> values(mode == "mismatch" && culprit ? 70 : 50, 1.0F);
    const auto start = std::chrono::steady_clock::now();
    const auto status = mode == "mismatch" ? mpib_allreduce(values.data(), values.data(),
                                                            values.size(), MPIB_FLOAT32, MPIB_SUM)
                                           : mpib_barrier();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    // One that is late may find all it needs: the others sent it before they gave up.
    if (culprit && mode == "late") return 0;
    if (culprit) return status == MPIB_OK ? complain("the others did not notice") : 0;
    const auto expected = mode == "late"     ? MPIB_ERROR_TIMEOUT
                          : mode == "leaves" ? MPIB_ERROR_PEER_LOST
                                             : MPIB_ERROR_MISMATCH;
    return judge(status, expected, took.count());
}
