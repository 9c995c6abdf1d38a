// SPDX-License-Identifier: Apache-2.0
//
// Pairwise exchange. In step k (1 .. n-1) every rank sends to the rank k above it and receives from
// the rank k below it, modulo n, so that each step uses every link once in each direction. Step 0
// copies the rank's own part.
#include <cstring>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/chunks.hpp"

namespace mpi_bridge {

Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                       std::span<const Bytes> in) {
    const int size = talk.size();
    const auto own = static_cast<std::size_t>(talk.rank());
    if (!out[own].empty()) std::memcpy(in[own].data(), out[own].data(), out[own].size());
    for (int step = 1; step < size; ++step) {
        Transfer both;
        both.to = wrapped(talk.rank() - size + step, size);
        both.from = wrapped(talk.rank() - step, size);
        both.out = out.subspan(static_cast<std::size_t>(both.to), 1);
        both.in = in.subspan(static_cast<std::size_t>(both.from), 1);
        both.step = static_cast<std::uint32_t>(step);
        TRY(transfer(talk, both, {}));
    }
    return {};
}

}  // namespace mpi_bridge
