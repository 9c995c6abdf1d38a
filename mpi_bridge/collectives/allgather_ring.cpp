// SPDX-License-Identifier: Apache-2.0
//
// Ring allgather: in step k every rank passes the part it received in step k-1, at first its own,
// to the rank above it. After n-1 steps everybody has every part. Parts may differ in length and
// travel from and to their final place. See collectives/ring.hpp for segments and rounds.
#include "collectives/collectives.hpp"
#include "collectives/ring.hpp"

namespace mpi_bridge {

Done allgather_ring(Conversation& talk, std::span<const Bytes> parts) {
    if (talk.size() == 1) return {};
    std::vector<ring::Slice> chunks;
    for (const Bytes part : parts)
        chunks.push_back({0, part.size()});
    const ring::Cut cut(std::move(chunks), talk.segment_bytes());
    const auto locate = [&](int chunk, ring::Slice slice) {
        return parts[static_cast<std::size_t>(chunk)].subspan(slice.offset, slice.length);
    };
    for (std::size_t round = 0; round < cut.rounds(); ++round) {
        auto gathered = ring::allgather_round(talk, cut, round, 0, locate);
        if (!gathered) return gathered;
    }
    return {};
}

}  // namespace mpi_bridge
