// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "core/failure.hpp"
#include "messages/note.hpp"
#include "messages/protocol.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// The notes that this rank has sent, until the transport has delivered them. Needs the lock of the
// protocol.
class Outbox {
  public:
    // The protocol is told of notes whose target has left.
    Outbox(Transport* transport, Protocol& protocol) : transport_(transport), protocol_(protocol) {}

    [[nodiscard]] Done send(const Protocol::SendNote& note);
    [[nodiscard]] Done send(const Protocol::SendNoData& answer);
    // Frees the notes that have been delivered.
    [[nodiscard]] Done reap();
    [[nodiscard]] bool empty() const { return posted_.empty(); }
    // The transport has let go of all notes.
    void clear();

    // Whether the failure says only that this rank has left in order: all other peers are there.
    [[nodiscard]] bool says_left(const Failure& failure, int rank);

  private:
    struct Sent {
        Note note;
        std::vector<std::byte> behind;  // what is sent in the note's place: data behind another one
        int to = 0;
        Request request = 0;
    };

    // Adds a note to those that are sent, and returns it for what it has to say.
    Sent& add(int to, Note::Kind kind, std::uint32_t serial);
    // Posts these bytes of the last one in `posted_`, ahead of others or not. Returns false, after
    // the protocol was told, if its target has left.
    [[nodiscard]] Outcome<bool> post(Tag tag, std::span<const std::byte> bytes, bool ahead = false);

    Transport* const transport_;
    Protocol& protocol_;
    std::list<Sent> posted_;
    // Notes to ranks that have left. The transport keeps them posted, so their memory stays.
    std::list<Sent> undelivered_;
};

}  // namespace mpi_bridge
