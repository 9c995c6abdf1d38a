// SPDX-License-Identifier: Apache-2.0
//
// Bruck's alltoall, for short messages among many ranks: ceil(log2 n) steps of one message each
// instead of n-1 messages, for which each message travels through up to that many ranks.
//
// Each rank keeps a slot for each distance: on rank r, slot i begins with the message to rank r+i
// modulo n. In the step with d = 1, 2, 4, .. it sends the slots whose number has the bit d to the
// rank d above it, side by side in one message, and puts those that it receives from the rank d
// below it in their place. So slot i travels i ranks in all, and at the end holds the message from
// rank r-i.
//
// All slots are as long as the longest message, so that each rank knows how much it receives
// without knowing the lengths of messages between others. Unless all messages are known to have the
// same length, a slot begins with that of its message, by which the receiver detects that its
// sender expected another one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/chunks.hpp"

namespace mpi_bridge {
namespace {

using Length = std::uint64_t;

class Bruck {
  public:
    Bruck(Conversation& talk, std::span<const ConstBytes> out, std::span<const Bytes> in,
          MessageLengths lengths)
        : talk_(talk),
          size_(talk.size()),
          out_(out),
          in_(in),
          header_(lengths.equal ? 0 : sizeof(Length)),
          slot_bytes_(header_ + lengths.longest) {
        const auto slots = static_cast<std::size_t>(size_) * slot_bytes_;
        const auto most_sent = static_cast<std::size_t>(size_ / 2) * slot_bytes_;
        const Bytes memory = talk.scratch().take(slots + 2 * most_sent);
        slots_ = memory.first(slots);
        outgoing_ = memory.subspan(slots, most_sent);
        incoming_ = memory.subspan(slots + most_sent, most_sent);
    }

    [[nodiscard]] Done run() {
        fill_slots();
        for (int distance = 1; distance < size_; distance *= 2)
            TRY(pass_on(distance));
        return take_from_slots();
    }

  private:
    [[nodiscard]] int above(int distance) const {
        return wrapped(talk_.rank() - size_ + distance, size_);
    }
    [[nodiscard]] int below(int distance) const { return wrapped(talk_.rank() - distance, size_); }
    [[nodiscard]] Bytes slots(int first, int count) const {
        return slots_.subspan(static_cast<std::size_t>(first) * slot_bytes_,
                              static_cast<std::size_t>(count) * slot_bytes_);
    }

    void fill_slots() const {
        for (int distance = 1; distance < size_; ++distance) {
            const ConstBytes message = out_[static_cast<std::size_t>(above(distance))];
            const Bytes slot = slots(distance, 1);
            const Length length = message.size();
            std::memcpy(slot.data(), &length, header_);
            if (length != 0) std::memcpy(slot.data() + header_, message.data(), length);
        }
    }

    // Calls `copy` with each run of slots that have the bit `distance`, and returns their bytes.
    template <typename Copy>
    std::size_t each_run(int distance, Copy copy) const {
        std::size_t at = 0;
        for (int first = distance; first < size_; first += 2 * distance) {
            const Bytes run = slots(first, std::min(distance, size_ - first));
            if (!run.empty()) copy(run, at);
            at += run.size();
        }
        return at;
    }

    // The step has the number that a message between the same two ranks has in the pairwise
    // exchange, so that ranks which disagree about the length find out.
    [[nodiscard]] Done pass_on(int distance) const {
        const std::size_t bytes = each_run(distance, [&](Bytes run, std::size_t at) {
            std::memcpy(outgoing_.data() + at, run.data(), run.size());
        });
        const ConstBytes out = outgoing_.first(bytes);
        const Bytes in = incoming_.first(bytes);
        Transfer both;
        both.to = above(distance);
        both.out = {&out, 1};
        both.from = below(distance);
        both.in = {&in, 1};
        both.step = static_cast<std::uint32_t>(distance);
        TRY(transfer(talk_, both, {}));
        each_run(distance, [&](Bytes run, std::size_t at) {
            std::memcpy(run.data(), incoming_.data() + at, run.size());
        });
        return {};
    }

    [[nodiscard]] Done take_from_slots() const {
        for (int distance = 1; distance < size_; ++distance) {
            const int from = below(distance);
            const Bytes message = in_[static_cast<std::size_t>(from)];
            const Bytes slot = slots(distance, 1);
            Length length = message.size();
            std::memcpy(&length, slot.data(), header_);
            if (length != message.size()) return talk_.mismatch(from, length, message.size());
            if (length != 0) std::memcpy(message.data(), slot.data() + header_, length);
        }
        return {};
    }

    Conversation& talk_;
    int size_;
    std::span<const ConstBytes> out_;
    std::span<const Bytes> in_;
    std::size_t header_;
    std::size_t slot_bytes_;
    Bytes slots_;
    Bytes outgoing_;
    Bytes incoming_;
};

}  // namespace

Outcome<MessageLengths> agree_on_lengths(Conversation& talk, const MessageLengths& own) {
    // No message is longer than the memory, which a signed number can count.
    std::array numbers = {static_cast<std::int64_t>(own.longest),
                          static_cast<std::int64_t>(own.most_in_all)};
    auto* memory = reinterpret_cast<std::byte*>(numbers.data());
    const Reduction& most = *find_reduction(MPIB_INT64, MPIB_MAX);
    TRY(allreduce_recursive_doubling(talk, most, memory, memory, numbers.size()));
    return MessageLengths{.longest = static_cast<std::size_t>(numbers[0]),
                          .most_in_all = static_cast<std::size_t>(numbers[1])};
}

Done alltoall_bruck(Conversation& talk, std::span<const ConstBytes> out, std::span<const Bytes> in,
                    MessageLengths lengths) {
    const auto own = static_cast<std::size_t>(talk.rank());
    if (!out[own].empty()) std::memcpy(in[own].data(), out[own].data(), out[own].size());
    if (talk.size() < 2 || lengths.longest == 0) return {};
    return Bruck(talk, out, in, lengths).run();
}

}  // namespace mpi_bridge
