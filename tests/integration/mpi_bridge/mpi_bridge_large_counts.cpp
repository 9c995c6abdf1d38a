// SPDX-License-Identifier: Apache-2.0
//
// To be started as several ranks on one host. Reduces and broadcasts vectors of more elements than
// a 32-bit number counts, through the blocking functions and through the engine, and checks every
// element. Needs a little over 2 GiB of memory per rank. Prints one line on rank 0; the first fault
// ends the rank with exit code 1.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"

namespace {

// Beyond 2^31, no multiple of anything, and its high part must not be lost at either end.
constexpr std::size_t count = (std::size_t{1} << 31) + 5;
constexpr std::size_t period = 31;  // coprime to powers of two

int rank = 0;
int size = 0;

[[noreturn]] void stop(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_large_counts: rank %d of %d: %s\n", rank, size, what.c_str());
    std::exit(1);
}

void must(mpib_status status, const char* call) {
    if (status != MPIB_OK) {
        stop(std::string(call) + ": " + mpib_status_name(status) + ": " + mpib_last_error());
    }
}

void fill(std::vector<std::int8_t>& values, int summand) {
    for (std::size_t first = 0; first < count; first += period) {
        for (std::size_t at = first; at < first + period && at < count; ++at)
            values[at] = static_cast<std::int8_t>(static_cast<int>(at - first) % 3 + summand);
    }
}

// Each element is `times` what fill() has put there, plus `summand`.
void expect(const std::vector<std::int8_t>& values, int times, int summand, const char* call) {
    for (std::size_t first = 0; first < count; first += period) {
        for (std::size_t at = first; at < first + period && at < count; ++at) {
            const int expected = times * (static_cast<int>(at - first) % 3) + summand;
            if (values[at] != expected) {
                stop(std::string(call) + ": element " + std::to_string(at) + " is " +
                     std::to_string(values[at]) + ", not " + std::to_string(expected));
            }
        }
    }
}

void call_engine(std::vector<std::int8_t>& values) {
    const auto length = static_cast<std::int64_t>(count);
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_ALLREDUCE;
    operation.name = "large";
    operation.send = values.data();
    operation.recv = values.data();
    operation.shape = &length;
    operation.dimensions = 1;
    operation.datatype = MPIB_INT8;
    operation.op = MPIB_SUM;
    must(mpib_call(&operation), "mpib_call");
}

}  // namespace

int main() {
    must(mpib_init(), "mpib_init");
    rank = mpib_rank();
    size = mpib_size();
    const int ranks_sum = size * (size - 1) / 2;
    std::vector<std::int8_t> values(count);

    fill(values, rank);
    must(mpib_allreduce(values.data(), values.data(), count, MPIB_INT8, MPIB_SUM),
         "mpib_allreduce");
    expect(values, size, ranks_sum, "mpib_allreduce");

    fill(values, rank);
    must(mpib_broadcast(values.data(), count, size - 1), "mpib_broadcast");
    expect(values, 1, size - 1, "mpib_broadcast");

    fill(values, rank);
    call_engine(values);
    expect(values, size, ranks_sum, "mpib_call");

    must(mpib_finalize(), "mpib_finalize");
    if (rank == 0)
        std::printf("mpi_bridge_large_counts: %d ranks: all well with %zu elements\n", size, count);
    return 0;
}
