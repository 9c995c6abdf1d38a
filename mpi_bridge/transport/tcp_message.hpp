// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/transport.hpp"

namespace mpi_bridge {

// What matches a message with a receive, among those of one peer: channel, sequence and step.
struct TcpKey {
    static constexpr unsigned sequence_shift = Tag::step_bits;
    static constexpr unsigned channel_shift = sequence_shift + Tag::sequence_bits;

    [[nodiscard]] static constexpr std::uint32_t of(Tag tag) {
        return Tag::low(tag.channel, Tag::channel_bits) << channel_shift |
               Tag::low(tag.sequence, Tag::sequence_bits) << sequence_shift |
               Tag::low(tag.step, Tag::step_bits);
    }
    // Equal for all messages of a call.
    [[nodiscard]] static constexpr std::uint32_t call(std::uint32_t key) {
        return key >> sequence_shift;
    }
};
static_assert(TcpKey::channel_shift + Tag::channel_bits < 32, "a key must leave room for goodbye");

// What goes before each message. Both ends have the same byte order, or do not meet.
struct TcpHeader {
    // Instead of a key: the last message, by which a rank that leaves differs from one that dies.
    static constexpr std::uint32_t goodbye = 0xffffffff;

    std::uint32_t key = 0;
    std::uint32_t agreement = 0;
    std::uint64_t bytes = 0;
};
static_assert(sizeof(TcpHeader) == 16);

// Something posted. Done means that nothing touches its memory any more.
struct TcpOperation {
    bool posted = false;
    bool done = false;
    bool receives = false;
    int peer = 0;
    Tag tag;
    std::uint32_t key = 0;        // of the tag
    std::byte* memory = nullptr;  // of a receive
    std::size_t bytes = 0;
    TcpHeader received{};  // by a receive that is done
};

}  // namespace mpi_bridge
