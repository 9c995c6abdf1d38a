// SPDX-License-Identifier: Apache-2.0
//
// Bruck's allgather, for short parts: ceil(log2 n) steps of one message each, for any number of
// ranks and parts of any lengths.
//
// Each rank counts the parts from its own: on rank r, part i is that of rank r+i modulo n. Every
// rank keeps parts 0 .. w-1 side by side in scratch memory, and starts with its own (w = 1). In a
// step with d = w it receives parts d .. 2d-1, or up to n-1 in the last step, from the rank d above
// it, which counts them as its first parts. It sends the same number of its own first parts to the
// rank d below it. So a message is one contiguous piece of memory. At the end the parts are copied
// to their places.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/chunks.hpp"

namespace mpi_bridge {

Done allgather_bruck(Conversation& talk, std::span<const Bytes> parts) {
    const int size = talk.size();
    if (size < 2) return {};
    const auto part = [&](int index) {
        return parts[static_cast<std::size_t>(wrapped(talk.rank() - size + index, size))];
    };
    std::vector<std::size_t> starts{0};  // of each part in scratch memory, then the end of all
    for (int index = 0; index < size; ++index)
        starts.push_back(starts.back() + part(index).size());
    const auto length = [&](int first, int count) {
        const int end = first + count;
        return starts[static_cast<std::size_t>(end)] - starts[static_cast<std::size_t>(first)];
    };
    const Bytes memory = talk.scratch().take(starts.back());
    if (!part(0).empty()) std::memcpy(memory.data(), part(0).data(), part(0).size());

    std::uint32_t step = 0;
    for (int have = 1; have < size; have += std::min(have, size - have)) {
        const int more = std::min(have, size - have);
        const ConstBytes out = memory.first(length(0, more));
        const Bytes in = memory.subspan(length(0, have), length(have, more));
        Transfer both;
        both.to = wrapped(talk.rank() - have, size);
        both.out = {&out, 1};
        both.from = wrapped(talk.rank() - size + have, size);
        both.in = {&in, 1};
        both.step = step++;
        TRY(transfer(talk, both, {}));
    }
    for (int index = 1; index < size; ++index) {
        const Bytes target = part(index);
        if (target.empty()) continue;
        std::memcpy(target.data(), memory.data() + length(0, index), target.size());
    }
    return {};
}

}  // namespace mpi_bridge
