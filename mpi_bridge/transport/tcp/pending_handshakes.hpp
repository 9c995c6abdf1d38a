// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>

#include "core/deadline.hpp"
#include "core/file_descriptor.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/tcp/link.hpp"

namespace mpi_bridge {

// The connections to this rank whose callers have not yet proved who they are.
//
// Few of them at a time await a genuine hello; these are kept for a short time only, and displace
// only each other. After it they await the response. There are at most two of these for each link,
// because a rank whose connection broke calls again. A genuine hello counts once, so whoever has
// recorded one cannot push out its rank with it. From no connection is more read than the next part
// of the handshake.
class TcpPendingHandshakes {
  public:
    static constexpr std::size_t most_awaiting_hello = 64;
    static constexpr std::size_t most_awaiting_response_of_a_link = 2;
    // A rank seldom calls more than twice for a link.
    static constexpr std::size_t most_hellos_of_a_link = 64;
    static constexpr std::chrono::seconds longest_hello{5};
    static constexpr std::chrono::seconds longest_response{20};

    struct Events {
        // Called for each socket that step() must be run for when something happens to it.
        std::function<void(int socket)> watch;
        // The caller has proved that it is the rank in the handshake, and waits for the verdict.
        std::function<void(FileDescriptor socket, const TcpHandshake& handshake)> proven;
    };

    TcpPendingHandshakes(int rank, TcpLinks links, Events events)
        : rank_(rank), links_(links), events_(std::move(events)) {}
    void set_secret(const TcpSecret& secret) { secret_ = secret; }

    void admit(FileDescriptor socket);
    // Makes progress with all handshakes. Returns true when something moved.
    bool step();
    // Closes the oldest connection that awaits a hello, because there is no descriptor left.
    void drop_one_awaiting_hello();

    [[nodiscard]] bool empty() const {
        return awaiting_hello_.empty() && awaiting_response_.empty();
    }
    // When the next connection will have been kept for too long.
    [[nodiscard]] Clock::time_point next_end() const;
    void clear();

  private:
    struct Connection {
        FileDescriptor socket;
        Clock::time_point until;
        std::size_t heard = 0;
        // One byte more than any caller sends before it gets an answer.
        std::array<std::byte, sizeof(TcpHandshake::Hello) + 1> buffer{};
        std::optional<TcpHandshake> handshake;  // once the hello has come
    };
    enum class Progress { waits, moved, ended, got_hello };

    bool step(std::list<Connection>& connections, std::size_t expected);
    [[nodiscard]] Progress advance(Connection& connection, std::size_t expected);
    [[nodiscard]] Progress take_hello(Connection& connection);
    [[nodiscard]] Progress take_response(Connection& connection);
    [[nodiscard]] bool names_a_link(const TcpHandshake::Hello& hello) const;
    [[nodiscard]] bool is_new(const TcpHandshake::Hello& hello);
    void make_room_for(int link);

    int rank_;
    TcpLinks links_;
    TcpSecret secret_{};
    Events events_;
    std::list<Connection> awaiting_hello_;     // the oldest first
    std::list<Connection> awaiting_response_;  // the oldest first
    // By caller: what tells its latest genuine hellos apart, the oldest first.
    std::map<std::uint32_t, std::deque<TcpHandshake::Nonce>> hellos_;
};

}  // namespace mpi_bridge
