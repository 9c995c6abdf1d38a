// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/failure.hpp"

namespace mpi_bridge {

// What messages and reductions cost on some network:
//   a message of m bytes takes  alpha + m * beta
//   reducing m bytes takes              m * gamma
// of the time of its rank, which can send and receive at the same time.
struct Model {
    double alpha = 0;  // seconds per message
    double beta = 0;   // seconds per byte moved
    double gamma = 0;  // seconds per byte reduced

    // A message that is posted together with another one takes this share of alpha: what processors
    // spend on it, while the wire's latency is shared.
    // It is usual where every rank has a processor and the wire is long; where ranks have to share
    // processors, waiting for each other, each message costs as much as the first.
    static constexpr double further_message = 0.25;
    double further = further_message;

    // A class of networks, "shared_memory", "rdma" or "tcp", or costs, such as
    // "alpha=20us,beta=1.2GB/s,gamma=8GB/s": a time in ns, us, ms or s; rates in kB/s, MB/s or GB/s
    // (powers of 1000). All three must be given, and "further=0.5" may be. Another form is
    // MPIB_ERROR_INVALID_ARGUMENT.
    [[nodiscard]] static Outcome<Model> parse(std::string_view text);

    // In the form that parse() reads.
    [[nodiscard]] std::string text() const;

    // Every cost rounded to the nearest power of two (of nanoseconds, of bytes per second).
    // Measurements of the same network differ from run to run by far less than a factor of two, and
    // so, but for unlucky cases, choices made from rounded ones do not differ. They must not where
    // bits of floating-point sums are to be repeated, because each algorithm adds in an order of
    // its own: pin the model then (MPI_BRIDGE_MODEL) or the algorithms (MPI_BRIDGE_ALLREDUCE).
    [[nodiscard]] Model rounded() const;
};

// 10 Gb/s Ethernet. Whoever cannot measure assumes this: where it is wrong, long vectors are
// reduced as well as on a faster network, and short ones in a step or two more.
[[nodiscard]] Model tcp_model();
// 100 Gb/s InfiniBand or RoCE.
[[nodiscard]] Model rdma_model();
// Messages through shared memory, between ranks of a node.
[[nodiscard]] Model shared_memory_model();

}  // namespace mpi_bridge
