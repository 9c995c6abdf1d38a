// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/ring.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace mpi_bridge::ring {
namespace {

using Pending = Conversation::Pending;

// Shorter messages cost more than their overlap with others gains.
constexpr std::size_t least_segment_bytes = 32UL * 1024;

std::size_t quotient_up(std::size_t value, std::size_t divisor) {
    return value / divisor + (value % divisor == 0 ? 0 : 1);
}

}  // namespace

Cut::Cut(Chunks chunks, std::size_t segment)
    : chunks_(std::move(chunks)),
      segment_(segment),
      longest_(std::min(chunks_.longest(), segment)),
      rounds_(quotient_up(quotient_up(chunks_.longest(), segment), tracks)) {}

Slice Cut::segment(std::size_t round, int chunk, std::size_t track) const {
    const Slice whole = chunks_[chunk];
    const std::size_t at = (round * tracks + track) * segment_;
    if (at >= whole.length) return {whole.offset + whole.length, 0};
    return {whole.offset + at, std::min(segment_, whole.length - at)};
}

Cut cut_for(Chunks chunks, std::size_t item_bytes, std::size_t configured_segment_bytes) {
    const std::size_t most = std::max<std::size_t>(1, configured_segment_bytes / item_bytes);
    const std::size_t least = std::max<std::size_t>(1, least_segment_bytes / item_bytes);
    const std::size_t share = quotient_up(chunks.longest(), tracks);
    return {std::move(chunks), std::min(most, std::max(least, share))};
}

namespace {

class Flow {
  public:
    Flow(Conversation& talk, const Cut& cut, Steps steps, Payload& payload)
        : talk_(talk),
          cut_(cut),
          steps_(steps),
          payload_(payload),
          steps_per_round_(static_cast<std::size_t>(steps.last - steps.first + 1)),
          turns_(cut.rounds() * steps_per_round_),
          left_(wrapped(talk.rank() - 1, talk.size())),
          right_(wrapped(talk.rank() + 1, talk.size())) {}

    [[nodiscard]] Done run() {
        for (std::size_t track = 0; track < tracks; ++track)
            TRY(post_receive(0, track));
        for (std::size_t track = 0; track < tracks; ++track)
            TRY(post_send(0, track));
        for (std::size_t turn = 0; turn < turns_; ++turn) {
            for (std::size_t track = 0; track < tracks; ++track)
                TRY(advance(turn, track));
        }
        for (auto& sends : sends_)
            TRY(talk_.wait_all(sends));
        return {};
    }

  private:
    // Each track has two turns in flight.
    static std::size_t parity(std::size_t turn) { return turn % 2; }

    Done advance(std::size_t turn, std::size_t track) {
        // The send of the previous turn must finish, because the next turn receives into its
        // memory.
        TRY(talk_.wait(sends_[parity(turn + 1)][track]));
        TRY(post_receive(turn + 1, track));
        TRY(talk_.wait(receives_[parity(turn)][track]));
        const Message message = received_in(turn, track);
        if (message.slice.length != 0) payload_.arrived(message);
        return post_send(turn + 1, track);
    }

    [[nodiscard]] Message message(std::size_t turn, std::size_t track, int ahead) const {
        Message message;
        message.turn = turn;
        message.step = steps_.first + static_cast<int>(turn % steps_per_round_);
        message.track = track;
        message.chunk = wrapped(talk_.rank() - 1 - message.step - ahead, talk_.size());
        message.slice = cut_.segment(turn / steps_per_round_, message.chunk, track);
        return message;
    }
    [[nodiscard]] Message sent_in(std::size_t turn, std::size_t track) const {
        return message(turn, track, 0);
    }
    [[nodiscard]] Message received_in(std::size_t turn, std::size_t track) const {
        return message(turn, track, 1);
    }

    Done post_receive(std::size_t turn, std::size_t track) {
        if (turn == turns_) return {};
        const Message message = received_in(turn, track);
        if (message.slice.length == 0) return {};
        receives_[parity(turn)][track] = TRY(talk_.receive(
            left_, static_cast<std::uint32_t>(message.step), payload_.incoming(message)));
        return {};
    }

    Done post_send(std::size_t turn, std::size_t track) {
        if (turn == turns_) return {};
        const Message message = sent_in(turn, track);
        if (message.slice.length == 0) return {};
        sends_[parity(turn)][track] = TRY(talk_.send(
            right_, static_cast<std::uint32_t>(message.step), payload_.outgoing(message)));
        return {};
    }

    Conversation& talk_;
    const Cut& cut_;
    Steps steps_;
    Payload& payload_;
    std::size_t steps_per_round_;
    std::size_t turns_;
    int left_;
    int right_;
    std::array<std::array<Pending, tracks>, 2> receives_{};
    std::array<std::array<Pending, tracks>, 2> sends_{};
};

}  // namespace

Done flow(Conversation& talk, const Cut& cut, Steps steps, Payload& payload) {
    if (cut.rounds() == 0) return {};
    return Flow(talk, cut, steps, payload).run();
}

Reducing::Reducing(Conversation& talk, const Reducer& reducer, const Cut& cut,
                   const std::byte* send, std::byte* recv, std::size_t recv_offset)
    : reducer_(reducer),
      size_(talk.size()),
      send_(send),
      recv_(recv),
      recv_offset_(recv_offset),
      // With two ranks, each one receives the result of a chunk while it may still be sending its
      // values of that chunk. With more ranks, that send has ended some steps earlier.
      send_values_directly_(reducer.values_are_accumulators() && (send != recv || size_ > 2)),
      slot_bytes_(cut.longest() * reducer.accumulator_bytes()),
      memory_(talk.scratch().take(slots * tracks * slot_bytes_)) {}

Bytes Reducing::slot(std::size_t turn, const Message& message) const {
    const std::size_t number = turn % slots * tracks + message.track;
    return memory_.subspan(number * slot_bytes_,
                           message.slice.length * reducer_.accumulator_bytes());
}

Bytes Reducing::result(Slice slice) const {
    const std::size_t bytes = reducer_.value_bytes();
    return {recv_ + (slice.offset - recv_offset_) * bytes, slice.length * bytes};
}

const std::byte* Reducing::values(Slice slice) const {
    return send_ + slice.offset * reducer_.value_bytes();
}

ConstBytes Reducing::outgoing(const Message& message) {
    if (message.step >= size_ - 1) return result(message.slice);
    // The data received in the previous turn. In step 0 nothing was received, so this rank's own
    // values are sent.
    const Bytes partial = slot(message.turn + slots - 1, message);
    if (message.step > 0) return partial;
    if (send_values_directly_) return {values(message.slice), partial.size()};
    reducer_.load(partial.data(), values(message.slice), message.slice.length);
    return partial;
}

Bytes Reducing::incoming(const Message& message) {
    return message.step >= size_ - 1 ? result(message.slice) : slot(message.turn, message);
}

void Reducing::arrived(const Message& message) {
    const int last_reduction = size_ - 2;
    if (message.step > last_reduction) return;
    std::byte* partial = slot(message.turn, message).data();
    const std::byte* own = values(message.slice);
    if (message.step < last_reduction) {
        reducer_.add(partial, own, message.slice.length);
    } else {
        reducer_.add_and_store(result(message.slice).data(), partial, own, message.slice.length,
                               size_);
    }
}

}  // namespace mpi_bridge::ring
