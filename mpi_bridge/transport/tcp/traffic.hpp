// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "transport/tcp/events.hpp"
#include "transport/tcp/host_silence.hpp"
#include "transport/tcp/link.hpp"
#include "transport/tcp/meeting.hpp"
#include "transport/tcp/peer.hpp"
#include "transport/tcp/transport.hpp"

namespace mpi_bridge {

// All peers of a rank: makes the connections and moves what is to be sent and received. Everything
// except await_event() needs the transport's lock.
class TcpTraffic {
  public:
    explicit TcpTraffic(TcpTransport::Options options);

    // await_event() also returns when `interrupt_descriptor` is readable.
    [[nodiscard]] Done start(int interrupt_descriptor);
    [[nodiscard]] const TcpAddress& address() const { return meeting_.address(); }

    [[nodiscard]] const TcpLinks& links() const { return links_; }

    // Returns the peer at the other end of the link, and calls it if it was not called before. The
    // caller must call activate() when it has posted something for the peer.
    [[nodiscard]] Outcome<TcpPeer*> talk_to(int link);
    void activate(int link) { activate(*peers_[static_cast<std::size_t>(link)]); }

    // Only for a link that talk_to() was called for, or that the other side has made.
    [[nodiscard]] const TcpPeer& peer(int link) const {
        return peers_[static_cast<std::size_t>(link)]->stream;
    }
    // The links of ranks that went without saying goodbye.
    [[nodiscard]] const std::vector<int>& lost() const { return lost_; }

    // Whether the rank has left or was lost, and all that came from it was read.
    [[nodiscard]] bool is_gone(int rank) const;

    // Returns a rank of which a message of this call (TcpKey::call) is kept, on links of that kind.
    // Between want_everything() and want_no_more(), everything that comes there is read, because it
    // may be such a message.
    [[nodiscard]] std::optional<int> keeps_message_of(std::uint32_t call,
                                                      TcpLinks::Kind kind) const;
    void want_everything(TcpLinks::Kind kind);
    void want_no_more(TcpLinks::Kind kind) {
        --wanting_everything_[static_cast<std::size_t>(kind)];
    }

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
        explicit Peer(int to, KeptMemory& memory) : link(to), stream(memory) {}

        int link;
        TcpPeer stream;
        bool active = false;       // is in active_
        bool awaits_room = false;  // watched until there is room to write
        HostSilence silence;
    };

    // A link that cannot be made.
    struct Missed {
        int link = 0;
        std::string why;
        // Before it counts as lost or left: the first may find what was known already, see
        // TcpEvents.
        int sweeps_left = 2;
    };

    [[nodiscard]] TcpMeeting::Events meeting_events();
    Peer& make_peer(int link);
    void met(int link, FileDescriptor socket);
    void missed(int link, std::string why);
    [[nodiscard]] bool end_missed();
    void activate(Peer& peer);
    bool move(Peer& peer, bool try_socket);
    void sweep();
    bool end_silent();
    [[nodiscard]] bool wants_to_read(const Peer& peer) const;
    template <typename Condition>
    void look_until(const std::function<bool()>& look, const Condition& condition,
                    Deadline deadline);

    // The peers at the other ends of the links of that kind, in the order of ranks.
    [[nodiscard]] std::span<const std::unique_ptr<Peer>> peers_of(TcpLinks::Kind kind) const {
        const auto ranks = static_cast<std::size_t>(options_.size);
        return std::span(peers_).subspan(static_cast<std::size_t>(kind) * ranks, ranks);
    }

    TcpTransport::Options options_;
    TcpLinks links_;
    TcpEvents events_;
    TcpMeeting meeting_;
    std::array<KeptMemory, TcpLinks::kinds> kept_memory_;  // by kind
    std::vector<std::unique_ptr<Peer>> peers_;             // by link; nullptr: no messages so far
    std::vector<int> active_;                              // links with work to do
    std::vector<int> lost_;
    std::vector<Missed> missed_;
    std::array<int, TcpLinks::kinds> wanting_everything_{};  // threads, by kind
    unsigned looks_ = 0;
    bool sweep_is_due_ = false;
    Clock::time_point next_silence_look_;
    bool says_goodbye_ = false;  // in close(): also over links that are made from now on
    bool closed_ = false;
};

}  // namespace mpi_bridge
