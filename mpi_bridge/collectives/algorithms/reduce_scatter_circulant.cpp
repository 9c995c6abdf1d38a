// SPDX-License-Identifier: Apache-2.0
//
// Reduce-scatter by halving, for short and medium vectors: ceil(log2 n) steps instead of the ring's
// n-1, and as few bytes if the parts have equal lengths. It works for any number of ranks; with
// parts of very different lengths the ring may move less. See collectives/algorithms/circulant.hpp.
#include <cstring>

#include "collectives/algorithms/circulant.hpp"
#include "collectives/algorithms/collectives.hpp"

namespace mpi_bridge {

Done reduce_scatter_circulant(Conversation& talk, const Reducer& reducer, const std::byte* send,
                              std::byte* recv, std::span<const std::size_t> counts) {
    const std::size_t own = counts[static_cast<std::size_t>(talk.rank())];
    if (talk.size() == 1) {
        if (own != 0) std::memcpy(recv, send, own * reducer.value_bytes());
        return {};
    }
    circulant::Scattering whole;
    whole.send = send;
    whole.blocks = Chunks::of(counts);
    const auto reduced = TRY(circulant::reduce_scatter(talk, reducer, whole));
    reducer.store(recv, reduced.accumulators, own, talk.size());
    return {};
}

}  // namespace mpi_bridge
