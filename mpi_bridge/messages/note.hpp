// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/group.hpp"
#include "messages/matching.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// What the ranks tell each other about a message before its data moves: the sender offers it, and
// the receiver accepts or refuses it. The offer of a short message can carry its data, so that
// accepting it ends it; the sender withdraws such an offer when it gives the message up. What the
// note has no room for follows directly behind it, with the tag of the message's data: into the
// memory of a receive that has been posted by then, or into memory of the library. A note also
// says that its sender has closed a process set. The transport carries a note as it lies in
// memory: all ranks have the same byte order, and whoever changes this struct raises the number in
// transport/wire_version.hpp.
struct Note {
    enum class Kind : std::uint32_t {
        offer = 1,
        accept = 2,
        refuse = 3,
        closed = 4,
        withdraw = 5,
        offer_with_data = 6,
    };

    Kind kind = Kind::offer;
    std::uint32_t serial = 0;  // the sender's number for the message; closed: a process set's id
    MessageAddress address;    // of an offer
    std::uint64_t bytes = 0;   // refuse: of the receive; otherwise of the message
    // All notes have one length, and to send so many bytes takes hardly longer than to send few.
    static constexpr std::size_t room = 1024;
    std::array<std::byte, room> carried{};  // the message or its beginning, of an offer with data

    // The longest message whose data an offer carries.
    static constexpr std::size_t most_carried = 64UL * 1024;

    // How many bytes follow it.
    [[nodiscard]] std::size_t bytes_behind() const {
        const bool has_more =
            kind == Kind::offer_with_data && bytes > room && bytes <= most_carried;
        return has_more ? bytes - room : 0;
    }
};
static_assert(sizeof(Note) == 40 + Note::room,
              "a note has no padding that would travel uninitialised");

// Messages do not belong to a process set, so the two numbers tell notes from data.
inline constexpr std::uint32_t notes_channel = Channel{Channel::Lane::messages, 0}.number();
inline constexpr std::uint32_t data_channel = Channel{Channel::Lane::messages, 1}.number();
inline constexpr Tag note_tag{notes_channel, 0, 0, 0};

// The tag of a message's data. Serial numbers recur after 2^20 messages to one rank, so two
// messages have the same only if so many are sent while the first of them waits for its data.
[[nodiscard]] constexpr Tag data_tag(std::uint32_t serial) {
    return {data_channel, Tag::low(serial, Tag::sequence_bits),
            Tag::low(serial >> Tag::sequence_bits, Tag::step_bits), 0};
}
// The same, for what a sender sends instead of data that it no longer has: it has given the message
// up before the receiver accepted it, and the receive is already posted. It matches that receive,
// but does not agree with it.
[[nodiscard]] constexpr Tag no_data_tag(std::uint32_t serial) {
    Tag tag = data_tag(serial);
    tag.agreement = 1;
    return tag;
}

}  // namespace mpi_bridge
