// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/group.hpp"

namespace mpi_bridge {

// Identifies a message between two ranks. A receive matches the oldest message from its sender with
// equal channel, sequence and step; `agreement` does not take part in matching but must be equal,
// which finds ranks that call different collectives, or the same with other arguments.
// The widths are those a 64-bit tag has room for; upper bits are dropped.
struct Tag {
    static constexpr unsigned channel_bits = Channel::lane_bits + Channel::group_bits;
    static constexpr unsigned sequence_bits = 12;
    static constexpr unsigned step_bits = 8;
    static constexpr unsigned agreement_bits = 16;

    std::uint32_t channel = 0;    // Channel::number()
    std::uint32_t sequence = 0;   // which collective call of the channel
    std::uint32_t step = 0;       // which step of it
    std::uint32_t agreement = 0;  // digest of what is called

    [[nodiscard]] static constexpr std::uint32_t low(std::uint32_t value, unsigned bits) {
        return value & ((std::uint32_t{1} << bits) - 1);
    }
};

// A posted operation; given back to the transport by exactly one wait() or by abandon().
using Request = std::uint32_t;

// Moves messages between ranks. Collectives are written against this and know nothing else.
// Any thread may call; messages between two ranks with equal tags arrive in the order sent, and are
// received in the order posted, so the messages of one channel should come from one thread at a
// time.
class Transport {
  public:
    virtual ~Transport() = default;
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;

    // The memory must stay untouched (send) or unread (receive) until wait() or abandon(). Never to
    // or from the own rank.
    [[nodiscard]] virtual Outcome<Request> post_send(int to, Tag tag,
                                                     std::span<const std::byte> data) = 0;
    [[nodiscard]] virtual Outcome<Request> post_receive(int from, Tag tag,
                                                        std::span<std::byte> data) = 0;

    // Lets everything posted move on without waiting. True when something moved.
    virtual bool progress() = 0;

    // Returns when the operation is complete. A message of another length or agreement than the
    // receive's is MPIB_ERROR_MISMATCH, a passed deadline MPIB_ERROR_TIMEOUT, a peer that is gone
    // MPIB_ERROR_PEER_LOST. So is the loss of another peer that was sent a message of this call,
    // since what is waited for may depend on it, but not if that one left by close(): the text of
    // PEER_LOST is "rank N (why)". After a failure the caller must abandon().
    [[nodiscard]] virtual Done wait(Request request, Deadline deadline) = 0;

    enum class Arrival { message, stopped, late };
    // Waits, without receiving it, for any message of this channel and sequence (Arrival::message).
    // Returns Arrival::stopped when `stop` returns true, which is asked at first and after each
    // wake(); Arrival::late when the deadline has passed. `stop` runs under the transport's lock:
    // it must neither call the transport nor take a lock that is held around calls of it.
    [[nodiscard]] virtual Outcome<Arrival> await_message(std::uint32_t channel,
                                                         std::uint32_t sequence,
                                                         const std::function<bool()>& stop,
                                                         Deadline deadline) = 0;

    // Has those who are blocked in await_message() ask `stop` again. Cheap when nobody is.
    virtual void wake() = 0;

    // Ends everything that is posted, so that its memory may be reused, and breaks all connections,
    // so that peers notice. Nothing can be posted after it.
    virtual void abandon() = 0;

    // Delivers what was sent, as far as that is possible before the deadline, and disconnects.
    virtual void close(Deadline deadline) = 0;
};

}  // namespace mpi_bridge
