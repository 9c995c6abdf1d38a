// SPDX-License-Identifier: Apache-2.0
//
// Pairwise exchange. In step k (1 .. n-1) every rank sends to the rank k above it and receives from
// the rank k below it, modulo n, so that each step uses every link once in each direction. Step 0
// copies the rank's own part.
//
// A step of short messages takes as long as a message is on its way. So the short messages of many
// steps are on their way at once, and the long ones follow step by step. All ranks cut the steps
// into the same batches, and begin a batch with its short messages: the rank that is behind all
// others waits for nobody who waits for it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/chunks.hpp"

namespace mpi_bridge {
namespace {

constexpr int steps_at_once = 32;
constexpr std::size_t longest_short_message = 32UL * 1024;

class PairwiseExchange {
  public:
    PairwiseExchange(Conversation& talk, std::span<const ConstBytes> out, std::span<const Bytes> in)
        : talk_(talk),
          out_(out),
          in_(in),
          longest_(std::min(longest_short_message, talk.segment_bytes())) {}

    [[nodiscard]] Done run() {
        const int size = talk_.size();
        for (int first = 1; first < size; first += steps_at_once) {
            const int end = std::min(first + steps_at_once, size);
            TRY(post_short_ones(first, end));
            for (int step = first; step < end; ++step)
                TRY(exchange_long_ones(step));
            TRY(talk_.wait_all(pending_));
            pending_.clear();
        }
        return {};
    }

  private:
    [[nodiscard]] int to(int step) const {
        return wrapped(talk_.rank() - talk_.size() + step, talk_.size());
    }
    [[nodiscard]] int from(int step) const { return wrapped(talk_.rank() - step, talk_.size()); }
    [[nodiscard]] std::span<const ConstBytes> message_to(int rank) const {
        return out_.subspan(static_cast<std::size_t>(rank), 1);
    }
    [[nodiscard]] std::span<const Bytes> message_from(int rank) const {
        return in_.subspan(static_cast<std::size_t>(rank), 1);
    }
    [[nodiscard]] bool is_short(std::size_t bytes) const { return bytes <= longest_; }

    // Receives first, so that what arrives has a place.
    [[nodiscard]] Done post_short_ones(int first, int end) {
        for (int step = first; step < end; ++step) {
            const Bytes message = message_from(from(step)).front();
            if (!message.empty() && is_short(message.size()))
                pending_.push_back(TRY(talk_.receive(from(step), number(step), message)));
        }
        for (int step = first; step < end; ++step) {
            const ConstBytes message = message_to(to(step)).front();
            if (!message.empty() && is_short(message.size()))
                pending_.push_back(TRY(talk_.send(to(step), number(step), message)));
        }
        return {};
    }

    [[nodiscard]] Done exchange_long_ones(int step) {
        Transfer both;
        both.to = to(step);
        both.from = from(step);
        both.step = number(step);
        if (!is_short(message_to(both.to).front().size())) both.out = message_to(both.to);
        if (!is_short(message_from(both.from).front().size())) both.in = message_from(both.from);
        return transfer(talk_, both, {});
    }

    static std::uint32_t number(int step) { return static_cast<std::uint32_t>(step); }

    Conversation& talk_;
    std::span<const ConstBytes> out_;
    std::span<const Bytes> in_;
    std::size_t longest_;
    std::vector<Conversation::Pending> pending_;
};

}  // namespace

Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                       std::span<const Bytes> in, MessageLengths /*lengths*/) {
    const auto own = static_cast<std::size_t>(talk.rank());
    if (!out[own].empty()) std::memcpy(in[own].data(), out[own].data(), out[own].size());
    return PairwiseExchange(talk, out, in).run();
}

}  // namespace mpi_bridge
