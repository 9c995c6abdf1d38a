// SPDX-License-Identifier: Apache-2.0
//
// Pairwise exchange. In step k (1 .. n-1) every rank sends to the rank k above it and receives from
// the rank k below it, modulo n, so that every link carries one transfer per direction and step.
// Step 0 is the rank's own part, which is copied.
//
// Both directions of a step move in segments, and independently, because their lengths may differ:
// up to `window` messages are under way per direction.
#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/collectives.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t window = 4;

// One direction of a transfer, cut into segments.
template <typename Span>
class Pieces {
  public:
    Pieces(Span data, std::size_t segment_bytes) : rest_(data), segment_bytes_(segment_bytes) {}
    [[nodiscard]] bool empty() const { return rest_.empty(); }
    Span next() {
        const Span piece = rest_.first(std::min(segment_bytes_, rest_.size()));
        rest_ = rest_.subspan(piece.size());
        return piece;
    }

  private:
    Span rest_;
    std::size_t segment_bytes_;
};

Done transfer(Conversation& talk, int to, ConstBytes out, int from, Bytes in, std::uint32_t step) {
    Pieces<ConstBytes> outgoing(out, talk.segment_bytes());
    Pieces<Bytes> incoming(in, talk.segment_bytes());
    std::array<Conversation::Pending, window> sends{};
    std::array<Conversation::Pending, window> receives{};
    // A slot is reused in turn, so that waiting for it is waiting for the oldest message.
    for (std::size_t turn = 0; !outgoing.empty() || !incoming.empty(); ++turn) {
        auto& receive = receives[turn % window];
        if (!incoming.empty()) {
            if (auto done = talk.wait(receive); !done) return done;
            auto pending = talk.receive(from, step, incoming.next());
            if (!pending) return pass_on(std::move(pending));
            receive = *pending;
        }
        auto& send = sends[turn % window];
        if (!outgoing.empty()) {
            if (auto done = talk.wait(send); !done) return done;
            auto pending = talk.send(to, step, outgoing.next());
            if (!pending) return pass_on(std::move(pending));
            send = *pending;
        }
    }
    if (auto done = talk.wait_all(receives); !done) return done;
    return talk.wait_all(sends);
}

}  // namespace

Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                       std::span<const Bytes> in) {
    const int size = talk.size();
    const auto own = static_cast<std::size_t>(talk.rank());
    if (!out[own].empty()) std::memcpy(in[own].data(), out[own].data(), out[own].size());
    for (int step = 1; step < size; ++step) {
        const int to = static_cast<int>((static_cast<long>(talk.rank()) + step) % size);
        const int from = (talk.rank() - step + size) % size;
        auto done = transfer(talk, to, out[static_cast<std::size_t>(to)], from,
                             in[static_cast<std::size_t>(from)], static_cast<std::uint32_t>(step));
        if (!done) return done;
    }
    return {};
}

}  // namespace mpi_bridge
