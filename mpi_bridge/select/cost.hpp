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

// What is on the longest chain of dependent work of an algorithm.
struct Cost {
    double messages = 0;  // a further message of the same step counts Model::further_message
    double bytes = 0;     // moved
    double reduced = 0;   // bytes reduced, or copied, while nothing is moved

    [[nodiscard]] double seconds(const Model& model) const {
        return messages * model.alpha + bytes * model.beta + reduced * model.gamma;
    }
};

// The costs of each algorithm, by its number: the model that choices are made by.
template <typename Algorithm>
[[nodiscard]] std::vector<Cost> costs(const Case& call);

// The least that any allreduce can take: as many steps as it takes to hear of all ranks, and as
// many bytes as must leave each rank.
[[nodiscard]] Cost allreduce_bound(const Case& call);

}  // namespace mpi_bridge
