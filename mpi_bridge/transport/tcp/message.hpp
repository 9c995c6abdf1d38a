// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/transport.hpp"

namespace mpi_bridge {

// What a message must have in common with a receive from the same peer to match it: channel,
// sequence and step.
struct TcpKey {
    static constexpr unsigned sequence_shift = Tag::step_bits;
    static constexpr unsigned channel_shift = sequence_shift + Tag::sequence_bits;

    [[nodiscard]] static constexpr std::uint32_t of(Tag tag) {
        return Tag::low(tag.channel, Tag::channel_bits) << channel_shift |
               Tag::low(tag.sequence, Tag::sequence_bits) << sequence_shift |
               Tag::low(tag.step, Tag::step_bits);
    }
    // The same number for all messages of a call.
    [[nodiscard]] static constexpr std::uint32_t call(std::uint32_t key) {
        return key >> sequence_shift;
    }
};
// A key of all ones would be `goodbye`. There is none, because its channel would need the last
// lane, which is not in use.
static_assert(TcpKey::channel_shift + Tag::channel_bits <= 32, "a key has 32 bits");
static_assert(Channel::last_lane < (1U << Channel::lane_bits) - 1, "goodbye must not be a key");

// Sent before each message. Both ends have the same byte order, or the handshake fails.
struct TcpHeader {
    // Used in place of a key for the last message, which distinguishes a rank that leaves from one
    // that dies.
    static constexpr std::uint32_t goodbye = 0xffffffff;

    std::uint32_t key = 0;
    std::uint32_t agreement = 0;
    std::uint64_t bytes = 0;
};
static_assert(sizeof(TcpHeader) == 16);

// A posted send or receive. When it is done, its memory is no longer accessed.
struct TcpOperation {
    bool posted = false;
    bool done = false;
    bool receives = false;
    int peer = 0;
    int link = 0;  // TcpLinks
    Tag tag;
    std::uint32_t key = 0;        // of the tag
    std::byte* memory = nullptr;  // of a receive
    std::size_t bytes = 0;
    TcpHeader received{};  // set by a receive that is done
};

}  // namespace mpi_bridge
