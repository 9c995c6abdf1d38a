// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>

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
        int to = 0;
        Request request = 0;
    };

    // Posts the first bytes of the last note in `posted_`.
    [[nodiscard]] Done post(Tag tag, std::size_t bytes);

    Transport* const transport_;
    Protocol& protocol_;
    std::list<Sent> posted_;
    // Notes to ranks that have left. The transport keeps them posted, so their memory stays.
    std::list<Sent> undelivered_;
};

}  // namespace mpi_bridge
