// SPDX-License-Identifier: Apache-2.0
//
// Ring allgather, for long parts: in each step every rank passes on the part that it received last
// (at first its own) to the rank above it. After n-1 steps all ranks have all parts. Parts may
// differ in length, and travel from and to their final place. These are the steps from n-1 on of
// collectives/algorithms/ring.hpp.
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/ring.hpp"

namespace mpi_bridge {
namespace {

class Parts final : public ring::Payload {
  public:
    Parts(std::span<const Bytes> parts, const ring::Cut& cut) : parts_(parts), cut_(cut) {}
    [[nodiscard]] ConstBytes outgoing(const ring::Message& message) override {
        return incoming(message);
    }
    [[nodiscard]] Bytes incoming(const ring::Message& message) override {
        const std::size_t offset = message.slice.offset - cut_.chunks().start(message.chunk);
        return parts_[static_cast<std::size_t>(message.chunk)].subspan(offset,
                                                                       message.slice.length);
    }
    void arrived(const ring::Message& /*message*/) override {}

  private:
    std::span<const Bytes> parts_;
    const ring::Cut& cut_;
};

}  // namespace

Done allgather_ring(Conversation& talk, std::span<const Bytes> parts) {
    const int size = talk.size();
    if (size == 1) return {};
    std::vector<std::size_t> lengths;
    lengths.reserve(parts.size());
    for (const Bytes part : parts)
        lengths.push_back(part.size());
    const auto cut = ring::cut_for(Chunks::of(lengths), 1, talk.segment_bytes());
    Parts payload(parts, cut);
    return ring::flow(talk, cut, {size - 1, 2 * size - 3}, payload);
}

}  // namespace mpi_bridge
