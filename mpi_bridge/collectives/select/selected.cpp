// SPDX-License-Identifier: Apache-2.0
#include "collectives/select/selected.hpp"

#include <numeric>

namespace mpi_bridge {

Done run_allreduce(AllreduceAlgorithm algorithm, Conversation& talk, const Reducer& reducer,
                   const std::byte* send, std::byte* recv, std::size_t count) {
    switch (algorithm) {
        case AllreduceAlgorithm::recursive_doubling:
            return allreduce_recursive_doubling(talk, reducer, send, recv, count);
        case AllreduceAlgorithm::recursive_quadrupling:
            return allreduce_recursive_quadrupling(talk, reducer, send, recv, count);
        case AllreduceAlgorithm::halving_doubling:
            return allreduce_halving_doubling(talk, reducer, send, recv, count);
        case AllreduceAlgorithm::direct:
            return allreduce_direct(talk, reducer, send, recv, count);
        case AllreduceAlgorithm::ring:
            break;
    }
    return allreduce_ring(talk, reducer, send, recv, count);
}

Done run_reduce(ReduceAlgorithm algorithm, Conversation& talk, const Reducer& reducer,
                const std::byte* send, std::byte* recv, std::size_t count, int root) {
    return algorithm == ReduceAlgorithm::binomial
               ? reduce_binomial(talk, reducer, send, recv, count, root)
               : reduce_halving(talk, reducer, send, recv, count, root);
}

Done run_reduce_scatter(ReduceScatterAlgorithm algorithm, Conversation& talk,
                        const Reducer& reducer, const std::byte* send, std::byte* recv,
                        std::span<const std::size_t> counts) {
    return algorithm == ReduceScatterAlgorithm::halving
               ? reduce_scatter_halving(talk, reducer, send, recv, counts)
               : reduce_scatter_ring(talk, reducer, send, recv, counts);
}

Done run_allgather(AllgatherAlgorithm algorithm, Conversation& talk, std::span<const Bytes> parts) {
    return algorithm == AllgatherAlgorithm::bruck ? allgather_bruck(talk, parts)
                                                  : allgather_ring(talk, parts);
}

Done run_broadcast(BroadcastAlgorithm algorithm, Conversation& talk, Bytes data, int root) {
    switch (algorithm) {
        case BroadcastAlgorithm::binomial:
            return broadcast_binomial(talk, data, root);
        case BroadcastAlgorithm::scatter_allgather:
            return broadcast_scatter_allgather(talk, data, root);
        case BroadcastAlgorithm::chain:
            break;
    }
    return broadcast_chain(talk, data, root);
}

Done run_allreduce(Selection& selection, Conversation& talk, const Reducer& reducer,
                   const std::byte* send, std::byte* recv, std::size_t count) {
    const auto algorithm = selection.allreduce(count * reducer.value_bytes(), talk.size());
    return run_allreduce(algorithm, talk, reducer, send, recv, count);
}

Done run_reduce(Selection& selection, Conversation& talk, const Reducer& reducer,
                const std::byte* send, std::byte* recv, std::size_t count, int root) {
    const auto algorithm = selection.reduce(count * reducer.value_bytes(), talk.size());
    return run_reduce(algorithm, talk, reducer, send, recv, count, root);
}

Done run_reduce_scatter(Selection& selection, Conversation& talk, const Reducer& reducer,
                        const std::byte* send, std::byte* recv,
                        std::span<const std::size_t> counts) {
    const std::size_t count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const auto algorithm = selection.reduce_scatter(count * reducer.value_bytes(), talk.size());
    return run_reduce_scatter(algorithm, talk, reducer, send, recv, counts);
}

Done run_allgather(Selection& selection, Conversation& talk, std::span<const Bytes> parts) {
    std::size_t bytes = 0;
    for (const Bytes part : parts)
        bytes += part.size();
    return run_allgather(selection.allgather(bytes, talk.size()), talk, parts);
}

Done run_broadcast(Selection& selection, Conversation& talk, Bytes data, int root) {
    return run_broadcast(selection.broadcast(data.size(), talk.size()), talk, data, root);
}

}  // namespace mpi_bridge
