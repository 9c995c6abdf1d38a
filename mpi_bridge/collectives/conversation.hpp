// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/scratch.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/group.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

template <typename Memory>
[[nodiscard]] std::size_t total_bytes(std::span<const Memory> parts) {
    std::size_t bytes = 0;
    for (const Memory& part : parts)
        bytes += part.size();
    return bytes;
}

// Returns 0 if there are no parts.
template <typename Memory>
[[nodiscard]] std::size_t longest_of(std::span<const Memory> parts) {
    std::size_t bytes = 0;
    for (const Memory& part : parts)
        bytes = std::max(bytes, part.size());
    return bytes;
}

// What all ranks know alike of the messages of an alltoall.
struct MessageLengths {
    std::size_t longest = 0;  // of all messages between all ranks
    // The most that any rank sends or receives; not used if all messages are equally long.
    std::size_t most_in_all = 0;
    bool equal = false;  // all messages are that long

    // Whether few of so many ranks' messages are nearly as long as the longest.
    [[nodiscard]] bool most_are_shorter(std::size_t ranks) const {
        return !equal && most_in_all < longest * ranks / 4;
    }
};

// Parameters that tune the algorithms; they must be the same on all ranks.
struct Tuning {
    std::size_t segment_bytes = 1024UL * 1024;  // the length of one message of a long transfer
};

// One collective call in flight. It sends and receives the messages of this call, and adds to every
// failure which rank waited for which in which step. Ranks are numbered within the group, except
// that texts name global ranks. Transport, scratch and group must outlive it.
class Conversation {
  public:
    struct Call {
        std::string_view name;        // for messages, such as "allreduce (ring)"
        std::uint32_t sequence = 0;   // number of this call; the same on all ranks
        std::uint32_t agreement = 0;  // digest of what must be equal on all ranks
        Seconds patience = no_limit;  // how long to wait for one message
        Tuning tuning;
        std::uint32_t channel = 0;     // Channel::number()
        const Group* group = nullptr;  // who takes part; nullptr: all ranks of the transport
    };

    // A message in flight. It may be waited for at most once; a default-constructed one is
    // complete.
    struct Pending {
        Request request = 0;
        int peer = 0;  // global rank
        std::uint32_t step = 0;
        bool receives = false;
        bool posted = false;
    };

    Conversation(Transport& transport, Scratch& scratch, Call call)
        : transport_(transport), scratch_(scratch), call_(call) {}

    [[nodiscard]] int rank() const {
        return call_.group == nullptr ? transport_.rank() : call_.group->own;
    }
    [[nodiscard]] int size() const {
        return call_.group == nullptr ? transport_.size() : call_.group->size();
    }
    [[nodiscard]] Scratch& scratch() { return scratch_; }
    [[nodiscard]] std::size_t segment_bytes() const { return call_.tuning.segment_bytes; }

    [[nodiscard]] Outcome<Pending> send(int to, std::uint32_t step, ConstBytes data);
    [[nodiscard]] Outcome<Pending> receive(int from, std::uint32_t step, Bytes data);

    // Marks the message as complete, also after a failure.
    [[nodiscard]] Done wait(Pending& pending);
    [[nodiscard]] Done wait_all(std::span<Pending> pending);

    // Sends one message and receives another at the same time.
    [[nodiscard]] Done exchange(int to, ConstBytes out, int from, Bytes in, std::uint32_t step);

    // The failure of a message that came through other ranks with another length than this rank
    // expects.
    [[nodiscard]] tl::unexpected<Failure> mismatch(int from, std::size_t sent,
                                                   std::size_t expected) const;

  private:
    [[nodiscard]] Tag tag(std::uint32_t step) const {
        return {call_.channel, call_.sequence, step, call_.agreement};
    }
    [[nodiscard]] int global(int member) const {
        return call_.group == nullptr ? member
                                      : call_.group->ranks[static_cast<std::size_t>(member)];
    }
    [[nodiscard]] tl::unexpected<Failure> explain(Failure failure, const Pending& pending) const;

    Transport& transport_;
    Scratch& scratch_;
    Call call_;
};

}  // namespace mpi_bridge
