// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "transport/tcp_message.hpp"

namespace mpi_bridge {

// Brings the messages of one peer and the receives posted for them together. A message goes
// straight into the memory of its receive, from the moment on that there is one; until then it is
// kept. Needs the transport's lock.
class TcpInbox {
  public:
    // A receive. It may be done at once.
    void expect(TcpOperation& receive);

    // A message begins; the one before must be complete.
    void begin(const TcpHeader& header);
    // Where the next bytes of the message belong; empty when it is complete.
    [[nodiscard]] std::span<std::byte> landing();
    void landed(std::size_t bytes);
    [[nodiscard]] bool complete() const { return left_ == 0; }

    // Some receive is not done.
    [[nodiscard]] bool expects() const { return !posted_.empty() || target_ != nullptr; }
    // Bytes of messages that nobody expected so far.
    [[nodiscard]] std::size_t kept_bytes() const { return kept_bytes_; }
    // A message, or the beginning of one, of this call (TcpKey::call) is kept.
    [[nodiscard]] bool keeps(std::uint32_t call) const;

    // Drops everything; no memory of a receive is touched from now on.
    void clear();

  private:
    struct Message {
        TcpHeader header;
        std::unique_ptr<std::byte[]> bytes;
        std::size_t landed = 0;
    };

    void give_away(std::list<Message>::iterator message, TcpOperation& receive);
    void finish();

    std::deque<TcpOperation*> posted_;  // in the order posted
    std::list<Message> kept_;           // in the order sent

    // The message that is coming in: for a receive, else kept, else of a length that its receive
    // does not have, and dropped.
    TcpHeader header_{};
    std::size_t left_ = 0;
    TcpOperation* target_ = nullptr;
    Message* keeping_ = nullptr;
    std::vector<std::byte> dropped_;
    std::size_t kept_bytes_ = 0;
};

}  // namespace mpi_bridge
