// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "collectives/conversation.hpp"
#include "network.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge_scale {

// What a simulated collective took.
struct Report {
    Time seconds = 0;  // until the last rank was done
    int steps = 0;     // messages on the longest chain, each sent after the one before
    std::uint64_t bytes_per_rank = 0;  // sent by the rank that sent most
    std::uint64_t messages = 0;        // of all ranks
    int connections_per_rank = 0;      // other ranks that the busiest one exchanged messages with
};

// Runs the real code of a collective as many ranks at once, in virtual time, over a modelled
// network. Each rank is a fiber; one thread runs them all, always the one that is earliest in
// virtual time, so that the same simulation gives the same report every time.
//
// A send is complete when its message has been received: no algorithm may count on messages being
// buffered. Where payload is carried, it is copied from the sender's memory at that moment, and
// the memory of a receive is overwritten when the receive is posted; so that an algorithm that
// touches memory it has lent to the transport gets wrong results, every time.
class Simulation {
  public:
    struct Options {
        int ranks = 2;
        Hardware hardware;
        std::size_t segment_bytes = 256UL * 1024;
        // False: messages and reductions are counted and take their time, but nothing is moved or
        // reduced, and all ranks share one scratch memory; for vectors that do not fit in memory
        // once per rank. What the ranks' buffers point to is then not touched.
        bool carries_payload = true;
    };

    using Body = std::function<mpi_bridge::Done(mpi_bridge::Conversation&)>;

    // The failure is that of the lowest rank that failed; MPIB_ERROR_TIMEOUT for a rank that waits
    // for a message that nobody will ever send.
    [[nodiscard]] static mpi_bridge::Outcome<Report> run(const Options& options, const Body& body);

    // The sum of FLOAT32, which takes the running rank's virtual time, and works only in a
    // simulation.
    [[nodiscard]] static const mpi_bridge::Reduction& float_sum();
};

}  // namespace mpi_bridge_scale
