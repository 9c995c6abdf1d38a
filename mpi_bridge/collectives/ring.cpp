// SPDX-License-Identifier: Apache-2.0
#include "collectives/ring.hpp"

#include <algorithm>
#include <array>

namespace mpi_bridge::ring {
namespace {

using Pending = Conversation::Pending;
using StepMessages = std::array<Pending, segments_per_round>;

int wrapped(int value, int size) {
    return ((value % size) + size) % size;
}

}  // namespace

Cut::Cut(std::vector<Slice> chunks, std::size_t segment)
    : chunks_(std::move(chunks)), segment_(segment) {
    std::size_t longest = 0;
    for (const Slice& chunk : chunks_)
        longest = std::max(longest, chunk.length);
    const std::size_t per_round = segment_ * segments_per_round;
    rounds_ = longest / per_round + (longest % per_round == 0 ? 0 : 1);
}

Slice Cut::segment(std::size_t round, int chunk, std::size_t index) const {
    const Slice& whole = chunks_[static_cast<std::size_t>(chunk)];
    const std::size_t at = (round * segments_per_round + index) * segment_;
    if (at >= whole.length) return {whole.offset + whole.length, 0};
    return {whole.offset + at, std::min(segment_, whole.length - at)};
}

std::vector<Slice> even_chunks(std::size_t count, int parts) {
    const auto divisor = static_cast<std::size_t>(parts);
    std::vector<Slice> chunks;
    std::size_t offset = 0;
    for (std::size_t part = 0; part < divisor; ++part) {
        const std::size_t length = count / divisor + (part < count % divisor ? 1 : 0);
        chunks.push_back({offset, length});
        offset += length;
    }
    return chunks;
}

namespace {

// The state of one reduce-scatter round. Partial results live in three sets of segment-sized
// slots, used in turn: while one set receives step k, the set of step k-1 is being sent, and the
// set of step k-2 has a whole step to finish sending before it receives step k+1.
class ReduceScatterRound {
  public:
    ReduceScatterRound(Conversation& talk, const Reduction& reduction, const std::byte* send,
                       const Cut& cut, std::size_t round, std::uint32_t first_step)
        : talk_(talk),
          reduction_(reduction),
          send_(send),
          cut_(cut),
          round_(round),
          first_step_(first_step),
          last_step_(talk.size() - 2) {
        for (int chunk = 0; chunk < talk.size(); ++chunk) {
            slot_items_ = std::max(slot_items_, cut.segment(round, chunk, 0).length);
        }
        memory_ = talk.scratch().take(sets * segments_per_round * slot_items_ *
                                      reduction.accumulator_bytes);
    }

    [[nodiscard]] Done run(const Finish& finish) {
        if (auto done = post_receives(0); !done) return done;
        for (std::size_t index = 0; index < segments_per_round; ++index) {
            const Slice slice = cut_.segment(round_, sent_chunk(0), index);
            reduction_.load(slot(-1, index, slice).data(), elements(slice), slice.length);
            if (auto done = post_send(0, index); !done) return done;
        }
        for (int step = 0; step <= last_step_; ++step) {
            if (auto done = finish_sends(step - 1); !done) return done;
            if (step < last_step_) {
                if (auto done = post_receives(step + 1); !done) return done;
            }
            for (std::size_t index = 0; index < segments_per_round; ++index) {
                if (auto done = take_in(step, index, finish); !done) return done;
            }
        }
        return finish_sends(last_step_);
    }

  private:
    static constexpr std::size_t sets = 3;

    // Chunk c is sent first by rank c+1, in step 0, and received by rank c in the last step.
    [[nodiscard]] int sent_chunk(int step) const {
        return wrapped(talk_.rank() - 1 - step, talk_.size());
    }
    [[nodiscard]] int received_chunk(int step) const { return sent_chunk(step + 1); }

    [[nodiscard]] static std::size_t set_of(int step) {
        return static_cast<std::size_t>(step + 1) % sets;
    }
    // Where the segment received in `step` is kept, and sent from in the next one; what is sent in
    // step 0 counts as received in step -1.
    [[nodiscard]] Bytes slot(int step, std::size_t index, Slice slice) const {
        const std::size_t number = set_of(step) * segments_per_round + index;
        return memory_.subspan(number * slot_items_ * reduction_.accumulator_bytes,
                               slice.length * reduction_.accumulator_bytes);
    }
    [[nodiscard]] const std::byte* elements(Slice slice) const {
        return send_ + slice.offset * reduction_.element_bytes;
    }
    [[nodiscard]] std::uint32_t message_step(int step) const {
        return first_step_ + static_cast<std::uint32_t>(step);
    }

    Done post_receives(int step) {
        for (std::size_t index = 0; index < segments_per_round; ++index) {
            const Slice slice = cut_.segment(round_, received_chunk(step), index);
            if (slice.length == 0) continue;
            auto pending = talk_.receive(wrapped(talk_.rank() - 1, talk_.size()),
                                         message_step(step), slot(step, index, slice));
            if (!pending) return pass_on(std::move(pending));
            receives_[set_of(step)][index] = *pending;
        }
        return {};
    }

    Done post_send(int step, std::size_t index) {
        const Slice slice = cut_.segment(round_, sent_chunk(step), index);
        if (slice.length == 0) return {};
        auto pending = talk_.send(wrapped(talk_.rank() + 1, talk_.size()), message_step(step),
                                  slot(step - 1, index, slice));
        if (!pending) return pass_on(std::move(pending));
        sends_[set_of(step)][index] = *pending;
        return {};
    }

    Done finish_sends(int step) { return talk_.wait_all(sends_[set_of(step)]); }

    Done take_in(int step, std::size_t index, const Finish& finish) {
        const Slice slice = cut_.segment(round_, received_chunk(step), index);
        if (slice.length == 0) return {};
        if (auto done = talk_.wait(receives_[set_of(step)][index]); !done) return done;
        const Bytes partial = slot(step, index, slice);
        reduction_.add(partial.data(), elements(slice), slice.length);
        if (step < last_step_) return post_send(step + 1, index);
        finish(partial.data(), slice);
        return {};
    }

    Conversation& talk_;
    const Reduction& reduction_;
    const std::byte* send_;
    const Cut& cut_;
    std::size_t round_;
    std::uint32_t first_step_;
    int last_step_;
    std::size_t slot_items_ = 0;
    Bytes memory_;
    std::array<StepMessages, sets> receives_{};
    std::array<StepMessages, sets> sends_{};
};

}  // namespace

Done reduce_scatter_round(Conversation& talk, const Reduction& reduction, const std::byte* send,
                          const Cut& cut, std::size_t round, std::uint32_t first_step,
                          const Finish& finish) {
    return ReduceScatterRound(talk, reduction, send, cut, round, first_step).run(finish);
}

Done allgather_round(Conversation& talk, const Cut& cut, std::size_t round,
                     std::uint32_t first_step, const Locate& locate) {
    const int size = talk.size();
    const int left = wrapped(talk.rank() - 1, size);
    const int right = wrapped(talk.rank() + 1, size);
    const auto sent_chunk = [&](int step) { return wrapped(talk.rank() - step, size); };

    std::array<StepMessages, 2> receives{};
    std::array<StepMessages, 2> sends{};
    const auto post = [&](bool receiving, int step, std::size_t index) -> Done {
        const int chunk = sent_chunk(receiving ? step + 1 : step);
        const Slice slice = cut.segment(round, chunk, index);
        if (slice.length == 0) return {};
        const auto number = first_step + static_cast<std::uint32_t>(step);
        const Bytes memory = locate(chunk, slice);
        auto pending =
            receiving ? talk.receive(left, number, memory) : talk.send(right, number, memory);
        if (!pending) return pass_on(std::move(pending));
        auto& messages = receiving ? receives : sends;
        messages[static_cast<std::size_t>(step % 2)][index] = *pending;
        return {};
    };

    for (std::size_t index = 0; index < segments_per_round; ++index) {
        if (auto done = post(true, 0, index); !done) return done;
        if (auto done = post(false, 0, index); !done) return done;
    }
    for (int step = 0; step <= size - 2; ++step) {
        const auto parity = static_cast<std::size_t>(step % 2);
        const bool last = step == size - 2;
        for (std::size_t index = 0; !last && index < segments_per_round; ++index) {
            if (auto done = post(true, step + 1, index); !done) return done;
        }
        // The sends of the step before made way for those of the next one.
        if (auto done = talk.wait_all(sends[1 - parity]); !done) return done;
        for (std::size_t index = 0; index < segments_per_round; ++index) {
            if (auto done = talk.wait(receives[parity][index]); !done) return done;
            if (last) continue;
            if (auto done = post(false, step + 1, index); !done) return done;
        }
    }
    if (auto done = talk.wait_all(sends[0]); !done) return done;
    return talk.wait_all(sends[1]);
}

}  // namespace mpi_bridge::ring
