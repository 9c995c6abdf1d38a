// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/file_descriptor.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/tcp/link.hpp"
#include "transport/tcp/pending_handshakes.hpp"

namespace mpi_bridge {

// Makes the connections of a rank's links (TcpLinks). Nothing here blocks; step() makes progress.
// Needs the transport's lock.
//
// The rank that wants to send or receive first calls: it connects, and both prove who they are and
// which link they mean (TcpHandshake). When two ranks call each other, the call of the lower rank
// counts: the lower rank answers the other's call with "I have called you", and the higher one
// accepts the lower one's call and forgets its own.
//
// A connection that breaks before the two have met is made again for a while, because the other
// side may have had to close it in favour of others, see TcpPendingHandshakes.
class TcpMeeting {
  public:
    struct Events {
        std::function<void(int link, FileDescriptor socket)> met;
        std::function<void(int link, std::string why)> missed;
        // Called for each socket that step() must be run for when something happens to it.
        std::function<void(int socket)> watch;
        std::function<Outcome<std::vector<std::byte>>(int rank)> address_of;
    };

    // `host_timeout` is TcpTransport::Options' own.
    TcpMeeting(int rank, TcpLinks links, Seconds host_timeout, Events events);

    // Opens a port at each of the addresses. An address that cannot be used is left out if another
    // one can.
    [[nodiscard]] Done listen(const std::vector<std::string>& addresses);
    [[nodiscard]] const TcpAddress& address() const { return address_; }

    // Makes a link over which its rank was neither met nor called before. Asks for the rank's
    // address.
    [[nodiscard]] Done call(int link);

    // Returns true when something moved.
    bool step();
    // Whether step() has something to do without an event: at once (has_work), or also because a
    // timer has expired (due).
    [[nodiscard]] bool has_work() const { return more_to_accept_; }
    [[nodiscard]] bool due() const {
        return more_to_accept_ ||
               (next_timer_ != Clock::time_point::max() && Clock::now() >= next_timer_);
    }

    void abandon();

  private:
    struct Call {
        enum class Stage { challenge, verdict, pause, yields };  // what it waits for

        TcpAddress address;
        std::size_t endpoint = 0;  // the next to try
        FileDescriptor socket;
        std::optional<TcpHandshake> handshake;
        Stage stage = Stage::challenge;
        std::vector<std::byte> saying;
        std::size_t said = 0;
        bool connected = false;  // something was sent or received
        std::size_t heard = 0;
        std::array<std::byte, sizeof(TcpHandshake::Challenge)> hearing{};
        unsigned breaks = 0;  // connections that broke
        Clock::time_point first_break;
        Clock::time_point next_attempt;

        [[nodiscard]] bool under_way() const { return socket || stage == Stage::pause; }
        [[nodiscard]] std::size_t expected() const {
            return stage == Stage::challenge ? sizeof(TcpHandshake::Challenge)
                                             : sizeof(TcpHandshake::Verdict);
        }
        [[nodiscard]] std::string where() const { return address.endpoints[endpoint - 1].text(); }
    };
    enum class Progress { waits, moved, ended };

    void reach(int link, Call& call, std::string why);
    [[nodiscard]] bool pause(Call& call);
    [[nodiscard]] Progress advance(int link, Call& call);
    [[nodiscard]] Progress converse(int link, Call& call);
    [[nodiscard]] Progress broke(int link, Call& call, int error);
    [[nodiscard]] Progress take_challenge(int link, Call& call);
    [[nodiscard]] Progress take_verdict(int link, Call& call);
    [[nodiscard]] Progress miss(int link, std::string why);
    [[nodiscard]] bool accept_some();
    [[nodiscard]] bool accept_some(const FileDescriptor& listener);
    void receive(FileDescriptor socket, const TcpHandshake& handshake);
    void set_timer();

    // The number of the same link on the other side.
    [[nodiscard]] int own_end(int link) const { return links_.to(rank_, links_.kind(link)); }

    int rank_;
    TcpLinks links_;
    Seconds host_timeout_;
    Events events_;
    TcpAddress address_;
    std::vector<FileDescriptor> listeners_;
    std::unordered_map<int, Call> calls_;  // by link, like met_
    TcpPendingHandshakes handshakes_;
    std::vector<bool> met_;
    bool more_to_accept_ = false;
    Clock::time_point accepts_again_;  // after the system had no room for more
    Clock::time_point next_timer_ = Clock::time_point::max();
};

}  // namespace mpi_bridge
