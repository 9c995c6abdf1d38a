// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "transport/tcp/kept_memory.hpp"
#include "transport/tcp/message.hpp"

namespace mpi_bridge {

// Matches the messages of one peer with the receives posted for them. A message goes straight into
// the memory of its receive as soon as that is posted; until then it is kept. Needs the transport's
// lock.
class TcpInbox {
  public:
    // The memory must outlive the inbox.
    explicit TcpInbox(KeptMemory& memory) : memory_(memory) {}

    // Posts a receive. It may be done at once.
    void expect(TcpOperation& receive);

    // Begins a message; the one before must be complete.
    void begin(const TcpHeader& header);
    // Where the next bytes of the message go; empty when the message is complete.
    [[nodiscard]] std::span<std::byte> landing();
    void landed(std::size_t bytes);
    [[nodiscard]] bool complete() const { return left_ == 0; }

    // Whether some receive is not done.
    [[nodiscard]] bool expects() const { return !posted_.empty() || target_ != nullptr; }
    // The bytes of messages that no receive has matched so far.
    [[nodiscard]] std::size_t kept_bytes() const { return kept_bytes_; }
    // Whether a message of this call (TcpKey::call), or the beginning of one, is kept.
    [[nodiscard]] bool keeps(std::uint32_t call) const;

    // Drops everything; no memory of a receive is accessed from now on.
    void clear();

  private:
    struct Message {
        TcpHeader header;
        KeptMemory::Piece piece;
        std::size_t landed = 0;
    };

    void give_away(std::list<Message>::iterator message, TcpOperation& receive);
    void finish();

    KeptMemory& memory_;
    std::deque<TcpOperation*> posted_;  // in the order posted
    std::list<Message> kept_;           // in the order sent

    // The message that is coming in. It goes to a receive, or is kept if there is none yet, or is
    // dropped if its receive has another length.
    TcpHeader header_{};
    std::size_t left_ = 0;
    TcpOperation* target_ = nullptr;
    Message* keeping_ = nullptr;
    std::vector<std::byte> dropped_;
    std::size_t kept_bytes_ = 0;
};

}  // namespace mpi_bridge
