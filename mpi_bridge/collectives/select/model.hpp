// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/failure.hpp"

namespace mpi_bridge {

// What messages and reductions cost on a network:
//   a message of m bytes takes  alpha + m * beta
//   reducing m bytes takes              m * gamma
// of the time of the rank, which can send and receive at the same time.
struct Model {
    double alpha = 0;  // seconds per message
    double beta = 0;   // seconds per byte moved
    double gamma = 0;  // seconds per byte reduced

    // A message that is posted together with another one takes this share of alpha: the processor
    // time for it, while it shares the latency of the wire. This value is usual if every rank has a
    // processor and the latency of the wire is long. If ranks have to share processors and wait for
    // each other, each message costs as much as the first.
    static constexpr double further_message = 0.25;
    double further = further_message;
    // The same for a message that follows another one to the same rank, as the segments of a long
    // transfer do. Nobody waits for each of them, even if ranks share processors.
    double streamed = further_message;

    // Reads a class of networks ("shared_memory", "rdma" or "tcp") or costs, such as
    // "alpha=20us,beta=1.2GB/s,gamma=8GB/s": a time in ns, us, ms or s, and rates in kB/s, MB/s or
    // GB/s (powers of 1000). All three must be given; "further=0.5" and "streamed=0.1" are
    // optional. Any other form is MPIB_ERROR_INVALID_ARGUMENT.
    [[nodiscard]] static Outcome<Model> parse(std::string_view text);

    // Returns the form that parse() reads.
    [[nodiscard]] std::string text() const;

    // Rounds every cost to the nearest power of two (of nanoseconds, of bytes per second).
    // Measurements of the same network differ from run to run by far less than a factor of two, so
    // choices made from rounded costs rarely differ. If the bits of floating-point sums must be
    // reproducible, the choices must not differ at all, because each algorithm adds in an order of
    // its own. In that case, pin the model (MPI_BRIDGE_MODEL) or the algorithms
    // (MPI_BRIDGE_ALLREDUCE).
    [[nodiscard]] Model rounded() const;
};

// 10 Gb/s Ethernet. Assumed if nothing can be measured: if it is wrong, long vectors are still
// reduced as well as on a faster network, and short ones in one or two more steps.
[[nodiscard]] Model tcp_model();
// 100 Gb/s InfiniBand or RoCE.
[[nodiscard]] Model rdma_model();
// Messages through shared memory, between ranks of a node.
[[nodiscard]] Model shared_memory_model();

}  // namespace mpi_bridge
