// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "select/algorithms.hpp"
#include "select/model.hpp"

namespace mpi_bridge {

// One collective call, as its costs depend on it.
struct Case {
    int ranks = 2;                        // at least 2
    double bytes = 0;                     // of the whole vector; of all parts of an allgather
    double segment_bytes = 256.0 * 1024;  // the longest message of a pipelined transfer
};

// A chain of dependent work.
struct Cost {
    double messages = 0;  // the first of each step
    double bytes = 0;     // moved
    double reduced = 0;   // bytes reduced, or copied, while nothing is moved
    double further = 0;   // messages posted together with another one

    [[nodiscard]] double seconds(const Model& model) const {
        return (messages + further * model.further) * model.alpha + bytes * model.beta +
               reduced * model.gamma;
    }
};

// What an algorithm takes: as long as the longer of two chains.
struct Estimate {
    Cost steps;  // all steps, each with what nothing else hides
    Cost link;   // what goes over one rank's link, where steps overlap; less than `steps` elsewhere

    [[nodiscard]] double seconds(const Model& model) const;
};

// Of each algorithm, by its number: what choices are made by.
template <typename Algorithm>
[[nodiscard]] std::vector<Estimate> estimates(const Case& call);

// No allreduce can take less: the largest of
//   - the time after which every rank can have heard of all others, when all pass on what they know
//     as fast as they can post messages
//   - the time in which the bytes can be sent that must leave each rank, 2(n-1)/n of the vector
//   - the time in which the reductions can be done, (n-1)/n of the vector per rank.
[[nodiscard]] double least_allreduce_seconds(const Case& call, const Model& model);

}  // namespace mpi_bridge
