// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "transport/tcp_events.hpp"
#include "transport/tcp_meeting.hpp"
#include "transport/tcp_peer.hpp"
#include "transport/tcp_transport.hpp"

namespace mpi_bridge {

// All peers of a rank: makes the connections and moves what is to be sent and received. Everything
// except await_event() needs the transport's lock.
class TcpTraffic {
  public:
    explicit TcpTraffic(TcpTransport::Options options);

    // await_event() also returns when `interrupt_descriptor` is readable.
    [[nodiscard]] Done start(int interrupt_descriptor);
    [[nodiscard]] const TcpAddress& address() const { return meeting_.address(); }

    // Returns the peer, and calls it if it was not called before. The caller must call activate()
    // when it has posted something for the peer.
    [[nodiscard]] Outcome<TcpPeer*> talk_to(int rank);
    void activate(int rank) { activate(*peers_[static_cast<std::size_t>(rank)]); }

    // Only for a rank that talk_to() was called for, or that has connected.
    [[nodiscard]] const TcpPeer& peer(int rank) const {
        return peers_[static_cast<std::size_t>(rank)]->stream;
    }
    // Ranks that went without saying goodbye.
    [[nodiscard]] const std::vector<int>& lost() const { return lost_; }

    // Whether the rank has left or was lost.
    [[nodiscard]] bool is_gone(int rank) const {
        const auto& known = peers_[static_cast<std::size_t>(rank)];
        return known != nullptr && known->stream.presence() != TcpPeer::Presence::there &&
               !known->stream.readable();
    }

    // Returns a rank of which a message of this call (TcpKey::call) is kept. Between
    // want_everything() and want_no_more(), everything that comes is read, because it may be such a
    // message.
    [[nodiscard]] std::optional<int> keeps_message_of(std::uint32_t call) const;
    void want_everything();
    void want_no_more() { --wanting_everything_; }

    // See Watch::Source.
    bool move();
    bool arm();
    void await_event(int milliseconds) { events_.await(milliseconds); }

    // Drops all connections.
    void abandon();
    // Delivers what is to be sent, says goodbye and disconnects. Calls `look` until this is done.
    void close(const std::function<bool()>& look, Deadline deadline);

  private:
    struct Peer {
        int rank = 0;
        TcpPeer stream;
        bool active = false;       // is in active_
        bool awaits_room = false;  // watched until there is room to write
    };

    [[nodiscard]] TcpMeeting::Events meeting_events();
    Peer& make_peer(int rank);
    void met(int rank, FileDescriptor socket);
    void missed(int rank, std::string why);
    void activate(Peer& peer);
    bool move(Peer& peer, bool try_socket);
    void sweep();
    [[nodiscard]] bool wants_to_read(const Peer& peer) const;
    template <typename Condition>
    void look_until(const std::function<bool()>& look, const Condition& condition,
                    Deadline deadline);

    TcpTransport::Options options_;
    TcpEvents events_;
    TcpMeeting meeting_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; nullptr: no messages so far
    std::vector<int> active_;                   // peers with work to do
    std::vector<int> lost_;
    int wanting_everything_ = 0;
    unsigned looks_ = 0;
    bool sweep_is_due_ = false;
    bool closed_ = false;
};

}  // namespace mpi_bridge
