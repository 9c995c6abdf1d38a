// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>

#include "core/deadline.hpp"
#include "core/file_descriptor.hpp"
#include "transport/tcp_handshake.hpp"

namespace mpi_bridge {

// The connections to this rank whose callers have not yet proved who they are.
//
// Whoever has not even shown a genuine hello is a stranger. Strangers are few, are kept for a short
// time only, and push out none but each other. Whoever has shown one is a candidate: at most two
// for each rank, since a rank whose connection broke calls again. Of neither is more read than the
// next part of the handshake.
class TcpVisitors {
  public:
    static constexpr std::size_t most_strangers = 64;
    static constexpr std::size_t most_candidates_of_a_rank = 2;
    static constexpr std::chrono::seconds longest_stranger{5};
    static constexpr std::chrono::seconds longest_candidate{20};

    struct Events {
        // A socket that step() wants to look at, when something happens to it.
        std::function<void(int socket)> watch;
        // The caller has proved that it is this rank, and waits for the verdict.
        std::function<void(FileDescriptor socket, const TcpHandshake& handshake)> proven;
    };

    TcpVisitors(int rank, int size, Events events)
        : rank_(rank), size_(size), events_(std::move(events)) {}
    void set_secret(const TcpSecret& secret) { secret_ = secret; }

    void admit(FileDescriptor socket);
    // Moves on with all. True when something moved.
    bool step();
    // Closes the oldest stranger, because there is no descriptor left.
    void drop_a_stranger();

    [[nodiscard]] bool empty() const { return strangers_.empty() && candidates_.empty(); }
    // When the next of them has been here for too long.
    [[nodiscard]] Clock::time_point next_end() const;
    void clear();

  private:
    struct Visitor {
        FileDescriptor socket;
        Clock::time_point until;
        std::size_t heard = 0;
        // One byte more than any caller sends before it is answered.
        std::array<std::byte, sizeof(TcpHandshake::Hello) + 1> buffer{};
        std::optional<TcpHandshake> handshake;  // a candidate's
    };
    enum class Progress { waits, moved, ended, became_candidate };

    bool step(std::list<Visitor>& visitors, std::size_t expected);
    [[nodiscard]] Progress advance(Visitor& visitor, std::size_t expected);
    [[nodiscard]] Progress take_hello(Visitor& visitor);
    [[nodiscard]] Progress take_response(Visitor& visitor);
    void make_room_for(int rank);

    int rank_;
    int size_;
    TcpSecret secret_{};
    Events events_;
    std::list<Visitor> strangers_;   // the oldest first
    std::list<Visitor> candidates_;  // the oldest first
};

}  // namespace mpi_bridge
