// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/transfer.hpp"

#include <algorithm>
#include <array>

namespace mpi_bridge {
namespace {

constexpr std::size_t transfer_window = 4;  // segments in flight per direction

// Takes one segment after the other from a list of runs.
template <typename Memory>
class Segments {
  public:
    struct Segment {
        std::size_t run = 0;
        std::size_t offset = 0;
        Memory memory;
    };

    Segments(std::span<const Memory> runs, std::size_t longest) : runs_(runs), longest_(longest) {
        skip_empty();
    }
    [[nodiscard]] bool empty() const { return run_ == runs_.size(); }
    Segment next() {
        const Memory rest = runs_[run_].subspan(offset_);
        const Segment segment{run_, offset_, rest.first(std::min(longest_, rest.size()))};
        offset_ += segment.memory.size();
        skip_empty();
        return segment;
    }

  private:
    void skip_empty() {
        while (run_ < runs_.size() && offset_ == runs_[run_].size()) {
            ++run_;
            offset_ = 0;
        }
    }

    std::span<const Memory> runs_;
    std::size_t longest_;
    std::size_t run_ = 0;
    std::size_t offset_ = 0;
};

// The receiving direction: a window of segments, which are completed in the order posted.
class Incoming {
  public:
    Incoming(Conversation& talk, const Transfer& what, std::size_t longest,
             const Received& received)
        : talk_(talk), what_(what), segments_(what.in, longest), received_(received) {}

    [[nodiscard]] bool all_posted() const { return segments_.empty(); }

    [[nodiscard]] Done post_next() {
        if (posted_ - taken_ == transfer_window) TRY(take_oldest());
        const auto segment = segments_.next();
        const auto pending = TRY(talk_.receive(what_.from, what_.step, segment.memory));
        landing_[posted_ % transfer_window] = segment;
        pending_[posted_ % transfer_window] = pending;
        ++posted_;
        return {};
    }

    [[nodiscard]] Done take_rest() {
        while (taken_ < posted_)
            TRY(take_oldest());
        return {};
    }

  private:
    [[nodiscard]] Done take_oldest() {
        const std::size_t place = taken_ % transfer_window;
        TRY(talk_.wait(pending_[place]));
        ++taken_;
        const auto& segment = landing_[place];
        if (received_) received_(segment.run, segment.offset, segment.memory);
        return {};
    }

    Conversation& talk_;
    const Transfer& what_;
    Segments<Bytes> segments_;
    const Received& received_;
    std::array<Segments<Bytes>::Segment, transfer_window> landing_{};
    std::array<Conversation::Pending, transfer_window> pending_{};
    std::size_t posted_ = 0;
    std::size_t taken_ = 0;
};

}  // namespace

Done transfer(Conversation& talk, const Transfer& what, const Received& received) {
    const std::size_t items = std::max<std::size_t>(1, talk.segment_bytes() / what.item_bytes);
    const std::size_t longest = items * what.item_bytes;
    Incoming incoming(talk, what, longest, received);
    Segments<ConstBytes> outgoing(what.out, longest);
    std::array<Conversation::Pending, transfer_window> sends{};
    // Every turn moves both directions on by one segment, so that no rank waits for a faster one.
    for (std::size_t turn = 0; !outgoing.empty() || !incoming.all_posted(); ++turn) {
        if (!incoming.all_posted()) TRY(incoming.post_next());
        if (outgoing.empty()) continue;
        auto& send = sends[turn % transfer_window];
        TRY(talk.wait(send));
        send = TRY(talk.send(what.to, what.step, outgoing.next().memory));
    }
    TRY(incoming.take_rest());
    return talk.wait_all(sends);
}

}  // namespace mpi_bridge
