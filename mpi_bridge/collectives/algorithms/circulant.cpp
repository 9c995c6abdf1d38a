// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/circulant.hpp"

#include <algorithm>
#include <array>

#include "collectives/algorithms/transfer.hpp"

namespace mpi_bridge::circulant {
namespace {

// The partial results of one rank's window, block after block, beginning with its own block.
class PartialResults {
  public:
    PartialResults(Conversation& talk, const Reducer& reducer, const Scattering& what)
        : talk_(talk),
          reducer_(reducer),
          what_(what),
          own_(wrapped(talk.rank() - what.first_owner, talk.size())) {}

    [[nodiscard]] Outcome<Scattered> reduce() {
        const auto width = widths(talk_.size());
        const Bytes spare = take_memory(width);
        for (std::size_t step = 0; step + 1 < width.size(); ++step) {
            const auto number = static_cast<std::uint32_t>(step);
            TRY(step == 0 ? first_step(width[0], width[1])
                          : next_step(width[step], width[step + 1], number));
        }
        return Scattered{partial_.data(), spare};
    }

  private:
    // Where block `block` of the window starts, in items.
    [[nodiscard]] std::size_t start(int block) const {
        return what_.blocks.window(own_, block).length();
    }
    [[nodiscard]] std::size_t bytes(std::size_t items) const {
        return items * reducer_.accumulator_bytes();
    }
    [[nodiscard]] Bytes partial(int first, int end) const {
        return partial_.subspan(bytes(start(first)), bytes(start(end) - start(first)));
    }

    // Takes scratch memory for three parts: the partial results, from the second width on; the data
    // received from the second step on; and the values sent in the first step, unless they can be
    // sent as they are. Returns the memory that the caller asked for.
    Bytes take_memory(std::span<const int> width) {
        const std::size_t kept = bytes(start(width[1]));
        const std::size_t coming = width.size() > 2 ? bytes(start(width[1] - width[2])) : 0;
        const std::size_t loaded =
            reducer_.values_are_accumulators() ? 0 : bytes(start(width[0]) - start(width[1]));
        // Memory that follows accumulators has their alignment.
        const Bytes memory = talk_.scratch().take(kept + coming + loaded + what_.spare_bytes);
        partial_ = memory.first(kept);
        incoming_ = memory.subspan(kept, coming);
        loaded_ = memory.subspan(kept + coming, loaded);
        return memory.last(what_.spare_bytes);
    }

    // Returns a window of the vector as the runs to send, and loads the values first if necessary.
    [[nodiscard]] std::array<ConstBytes, 2> values_to_send(Chunks::Runs runs) const {
        const std::size_t first = bytes(runs.first.length);
        const std::size_t second = bytes(runs.second.length);
        if (reducer_.values_are_accumulators()) {
            return {ConstBytes(values(runs.first), first), ConstBytes(values(runs.second), second)};
        }
        reducer_.load(loaded_.data(), values(runs.first), runs.first.length);
        reducer_.load(loaded_.data() + first, values(runs.second), runs.second.length);
        return {ConstBytes(loaded_.first(first)), ConstBytes(loaded_.subspan(first))};
    }
    [[nodiscard]] const std::byte* values(Slice slice) const {
        return what_.send + slice.offset * reducer_.value_bytes();
    }

    // Sends values. The received data, which are values too, become the first partial results.
    Done first_step(int width, int next) {
        const int got = width - next;
        const auto sent = values_to_send(
            what_.blocks.window(wrapped(own_ - talk_.size() + next, talk_.size()), got));
        const Chunks::Runs own = what_.blocks.window(own_, next);
        const Chunks::Runs received = what_.blocks.window(own_, got);
        const Bytes memory = partial(0, got);
        const std::size_t first_bytes = bytes(received.first.length);
        const std::array<Bytes, 2> landing = {memory.first(first_bytes),
                                              memory.subspan(first_bytes)};
        // With an odd number of blocks, the middle one begins with this rank's values alone.
        load_own(own, received.length());

        Transfer both;
        both.to = above(next);
        both.out = sent;
        both.from = above(-next);
        both.in = landing;
        both.item_bytes = reducer_.accumulator_bytes();
        return transfer(talk_, both, [&](std::size_t run, std::size_t offset, Bytes segment) {
            const Slice& slice = run == 0 ? received.first : received.second;
            const std::size_t at = offset / reducer_.accumulator_bytes();
            const std::size_t count = segment.size() / reducer_.accumulator_bytes();
            reducer_.add(segment.data(), values({slice.offset + at, count}), count);
        });
    }

    // Loads the values of the window `own`, beginning with item `from`.
    void load_own(const Chunks::Runs& own, std::size_t from) {
        const std::size_t in_first = std::min(from, own.first.length);
        const Slice first{own.first.offset + in_first, own.first.length - in_first};
        const std::size_t in_second = from - in_first;
        const Slice second{own.second.offset + in_second, own.second.length - in_second};
        std::byte* target = partial_.data() + bytes(from);
        reducer_.load(target, values(first), first.length);
        reducer_.load(target + bytes(first.length), values(second), second.length);
    }

    Done next_step(int width, int next, std::uint32_t step) {
        const ConstBytes sent = partial(next, width);
        const Bytes kept = partial(0, width - next);
        const Bytes landing = incoming_.first(kept.size());
        Transfer both;
        both.to = above(next);
        both.out = {&sent, 1};
        both.from = above(-next);
        both.in = {&landing, 1};
        both.step = step;
        both.item_bytes = reducer_.accumulator_bytes();
        return transfer(talk_, both, [&](std::size_t /*run*/, std::size_t offset, Bytes segment) {
            std::byte* result = kept.data() + offset;
            reducer_.merge(result, result, segment.data(),
                           segment.size() / reducer_.accumulator_bytes());
        });
    }

    // The rank at that distance above this one, or below it if the distance is negative.
    [[nodiscard]] int above(int distance) const {
        return wrapped(talk_.rank() - talk_.size() + distance, talk_.size());
    }

    Conversation& talk_;
    const Reducer& reducer_;
    const Scattering& what_;
    int own_;  // this rank's block
    Bytes partial_;
    Bytes incoming_;
    Bytes loaded_;
};

}  // namespace

std::vector<int> widths(int ranks) {
    std::vector<int> widths{ranks};
    while (widths.back() > 1)
        widths.push_back(widths.back() - widths.back() / 2);
    return widths;
}

Outcome<Scattered> reduce_scatter(Conversation& talk, const Reducer& reducer,
                                  const Scattering& what) {
    return PartialResults(talk, reducer, what).reduce();
}

Done allgather(Conversation& talk, const Gathering& what) {
    const int size = talk.size();
    const int own = wrapped(talk.rank() - what.first_owner, size);
    const auto memory = [&](Slice slice) {
        return Bytes(what.data + slice.offset * what.item_bytes, slice.length * what.item_bytes);
    };
    const auto width = widths(size);
    std::uint32_t step = what.first_step;
    for (std::size_t index = width.size() - 1; index > 0; --index) {
        const int had = width[index];
        const int got = width[index - 1] - had;
        const Chunks::Runs sent = what.blocks.window(own, got);
        const Chunks::Runs received = what.blocks.window(wrapped(own - size + had, size), got);
        const std::array<ConstBytes, 2> out = {memory(sent.first), memory(sent.second)};
        const std::array<Bytes, 2> in = {memory(received.first), memory(received.second)};
        Transfer both;
        both.to = wrapped(talk.rank() - had, size);
        both.out = out;
        both.from = wrapped(talk.rank() - size + had, size);
        both.in = in;
        both.step = step++;
        TRY(transfer(talk, both, {}));
    }
    return {};
}

}  // namespace mpi_bridge::circulant
