// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "transport/tcp_events.hpp"
#include "transport/tcp_meeting.hpp"
#include "transport/tcp_peer.hpp"
#include "transport/tcp_transport.hpp"

namespace mpi_bridge {

// All peers of a rank: meets them, and moves what is to be sent and received. Needs the transport's
// lock, but for await_event().
class TcpTraffic {
  public:
    explicit TcpTraffic(TcpTransport::Options options);

    // await_event() also returns when `interrupt_descriptor` is readable.
    [[nodiscard]] Done start(int interrupt_descriptor);
    [[nodiscard]] const TcpAddress& address() const { return meeting_.address(); }

    // The peer, which is called when it was not before. Something was posted for it: activate().
    [[nodiscard]] Outcome<TcpPeer*> talk_to(int rank);
    void activate(int rank) { activate(*peers_[static_cast<std::size_t>(rank)]); }

    // Of a rank talked with.
    [[nodiscard]] const TcpPeer& peer(int rank) const {
        return peers_[static_cast<std::size_t>(rank)]->stream;
    }
    // Ranks that went without goodbye.
    [[nodiscard]] const std::vector<int>& lost() const { return lost_; }

    // Whether a message of this call (TcpKey::call) is kept. Between the other two, everything is
    // read that comes, since it may be such a message.
    [[nodiscard]] bool keeps_message_of(std::uint32_t call) const;
    void want_everything();
    void want_no_more() { --wanting_everything_; }

    // See Watch::Source.
    bool move();
    bool arm();
    void await_event(int milliseconds) { events_.await(milliseconds); }

    // Drops all connections.
    void abandon();
    // Delivers what is to be sent, says goodbye, disconnects. `look` is called until it is done.
    void close(const std::function<bool()>& look, Deadline deadline);

  private:
    struct Peer {
        int rank = 0;
        TcpPeer stream;
        bool active = false;       // in active_
        bool awaits_room = false;  // watched for room to write
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
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; nullptr: never talked with
    std::vector<int> active_;                   // peers that something is to be done for
    std::vector<int> lost_;
    int wanting_everything_ = 0;
    unsigned looks_ = 0;
    bool sweep_is_due_ = false;
    bool closed_ = false;
};

}  // namespace mpi_bridge
