// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/group.hpp"
#include "core/waits.hpp"
#include "transport/wait/spin_policy.hpp"

// Messages between ranks, over whatever network there is.
//
//   transport.hpp        the interface, which is all that collectives and messages use
//   open_transport.hpp   opens the transport that has been chosen for this host
//   alone_transport.hpp  the transport of a rank without peers
//   participation.hpp    remembers in which call a peer was last sent a message, in case it is lost
//   wire_version.hpp     the number of the format of what the ranks send
//   choice/              the host's network, and which transport and interface are used
//   tcp/                 a transport over the library's own sockets
//   ucx/                 a transport over UCX
//   wait/                how a thread waits: when it polls and when it sleeps, beside other threads
namespace mpi_bridge {

// Identifies a message between two ranks. A receive matches the oldest message from its sender with
// equal channel, sequence and step. `agreement` does not take part in matching but must be equal;
// this detects ranks that call different collectives, or the same one with other arguments. The
// widths are chosen to fit a 64-bit tag; upper bits are dropped, except that TCP compares all bits
// of the agreement.
struct Tag {
    static constexpr unsigned channel_bits = Channel::lane_bits + Channel::group_bits;
    static constexpr unsigned sequence_bits = 12;
    static constexpr unsigned step_bits = 8;
    static constexpr unsigned agreement_bits = 16;

    std::uint32_t channel = 0;    // Channel::number()
    std::uint32_t sequence = 0;   // which collective call of the channel
    std::uint32_t step = 0;       // which step of it
    std::uint32_t agreement = 0;  // digest of what is called

    // The kind of thread that waits for a message with this tag.
    [[nodiscard]] constexpr Waits::Lane lane() const {
        switch (Channel::lane_of(channel)) {
            case Channel::Lane::direct:
            case Channel::Lane::messages:
                return Waits::Lane::direct;
            case Channel::Lane::control:
                return Waits::Lane::negotiation;
            default:
                return Waits::Lane::engine;
        }
    }

    // How a thread waits for a message of this channel (Channel::number()).
    [[nodiscard]] static constexpr WaitMode wait_mode(std::uint32_t channel) {
        return Channel::lane_of(channel) == Channel::Lane::messages ? WaitMode::blocks
                                                                    : WaitMode::yields;
    }

    [[nodiscard]] static constexpr std::uint32_t low(std::uint32_t value, unsigned bits) {
        return value & ((std::uint32_t{1} << bits) - 1);
    }
};

// A posted operation; exactly one wait(), or abandon(), gives it back to the transport.
using Request = std::uint32_t;

// Moves messages between ranks. Collectives use only this interface. Any thread may call. Messages
// between two ranks with equal tags arrive in the order sent and are received in the order posted,
// so the messages of one channel should come from one thread at a time.
class Transport {
  public:
    virtual ~Transport() = default;
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;

    // The memory must not be changed (send) or accessed (receive) until wait() or abandon(). A rank
    // must not send to or receive from itself.
    [[nodiscard]] virtual Outcome<Request> post_send(int to, Tag tag,
                                                     std::span<const std::byte> data) = 0;
    // The same for a message that another one to that rank follows at once: it may leave together
    // with that.
    [[nodiscard]] virtual Outcome<Request> post_send_ahead(int to, Tag tag,
                                                           std::span<const std::byte> data) {
        return post_send(to, tag, data);
    }
    [[nodiscard]] virtual Outcome<Request> post_receive(int from, Tag tag,
                                                        std::span<std::byte> data) = 0;

    // Lets all posted operations make progress without waiting. Returns true when something moved.
    virtual bool progress() = 0;

    // Returns when the operation is complete. A message whose length or agreement differs from the
    // receive's is MPIB_ERROR_MISMATCH, a passed deadline is MPIB_ERROR_TIMEOUT, and a peer that is
    // gone is MPIB_ERROR_PEER_LOST. The loss of another peer that was sent a message of this call
    // is MPIB_ERROR_PEER_LOST too, because the awaited message may depend on it, unless that peer
    // left by close(). The text of PEER_LOST is "rank N (why)". After
    // MPIB_ERROR_TIMEOUT and MPIB_ERROR_PEER_LOST the operation is still posted. After a timeout it
    // may be waited for again; after any other failure the caller must call abandon().
    [[nodiscard]] virtual Done wait(Request request, Deadline deadline) = 0;
    // Whether an operation is still posted when wait() has failed in this way.
    [[nodiscard]] static bool still_posted(const Failure& failure) {
        return failure.status == MPIB_ERROR_TIMEOUT || failure.status == MPIB_ERROR_PEER_LOST;
    }

    enum class Arrival { message, stopped, late };
    // Waits for any message of this channel and sequence without receiving it (Arrival::message).
    // Returns Arrival::stopped when `stop` returns true; `stop` is called at first and after each
    // wake(). Returns Arrival::late when the deadline has passed. The loss of any rank that was a
    // peer is MPIB_ERROR_PEER_LOST, because the message may depend on that rank. `stop` is called
    // with the transport's lock held: it must neither call the transport nor take a lock that is
    // held around calls of the transport.
    [[nodiscard]] virtual Outcome<Arrival> await_message(std::uint32_t channel,
                                                         std::uint32_t sequence,
                                                         const std::function<bool()>& stop,
                                                         Deadline deadline) = 0;

    // Returns a rank that has sent a message of this channel and sequence which has not been
    // received yet.
    [[nodiscard]] virtual std::optional<int> sender_of(std::uint32_t channel,
                                                       std::uint32_t sequence) = 0;
    // Whether the rank was a peer, or should have been, and has left or was lost. If so, everything
    // that it has sent is here.
    [[nodiscard]] virtual bool is_gone(int rank) = 0;

    // Says whether ranks of this host share processors, which is known only once they have told
    // each other on which they may run; it decides how a wait looks for what comes. See SpinPolicy.
    virtual void set_crowded(bool /*crowded*/) {}

    // Makes the threads that are blocked in await_message() call `stop` again. Cheap when there are
    // none.
    virtual void wake() = 0;

    // Ends all posted operations, so that their memory may be reused, and breaks all connections,
    // so that peers notice. Nothing can be posted afterwards.
    virtual void abandon() = 0;

    // Delivers what was sent, as far as possible before the deadline, and disconnects.
    virtual void close(Deadline deadline) = 0;
};

}  // namespace mpi_bridge
