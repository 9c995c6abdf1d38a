// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/select/model.hpp"

namespace mpi_bridge {

// One collective call, with the properties that its costs depend on.
struct Case {
    int ranks = 2;                        // at least 2
    double bytes = 0;                     // of the whole vector; of all parts of an allgather
    double segment_bytes = 256.0 * 1024;  // the longest message of a pipelined transfer
};

// The share of a vector that belongs to the other ranks.
[[nodiscard]] inline double others_share(const Case& call) {
    return (call.ranks - 1.0) / call.ranks;
}

// A chain of dependent work.
struct Cost {
    double messages = 0;  // the first of each step
    double bytes = 0;     // moved
    double reduced = 0;   // bytes reduced or copied while nothing is moved
    double further = 0;   // messages posted together with another one
    double streamed = 0;  // messages that follow another one to the same rank

    [[nodiscard]] double seconds(const Model& model) const {
        return (messages + further * model.further + streamed * model.streamed) * model.alpha +
               bytes * model.beta + reduced * model.gamma;
    }
};

// What an algorithm costs; choices are based on it. The longer of two chains determines its time.
struct Estimate {
    Cost steps;    // all steps, each with what nothing else hides
    Cost busiest;  // of what overlaps: all work of the link or processor that is busiest

    [[nodiscard]] double seconds(const Model& model) const;
};

// The longest message of an alltoall that should be joined with all others between the same two
// hosts into one message between their leaders, instead of being sent directly to its rank. 0 if
// hosts have one rank, because nothing is gained then; otherwise a power of two.
[[nodiscard]] std::size_t longest_joined_message(const Model& model, int ranks_of_host);

// A lower bound for the time of any allreduce: the largest of
//   - the time after which every rank can have heard of all others, when all pass on what they know
//     as fast as they can post messages
//   - the time in which the bytes can be sent that must leave each rank, 2(n-1)/n of the vector
//   - the time in which the reductions can be done, (n-1)/n of the vector per rank.
[[nodiscard]] double least_allreduce_seconds(const Case& call, const Model& model);

}  // namespace mpi_bridge
