// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include <sys/epoll.h>

#include "core/failure.hpp"
#include "core/file_descriptor.hpp"

namespace mpi_bridge {

// Tells which sockets something has happened to: each event once, so that sockets which are read
// without being asked for cost nothing here.
class TcpEvents {
  public:
    // What a socket is watched under, apart from ranks.
    static constexpr int meeting = -1;
    static constexpr int interrupt = -2;

    [[nodiscard]] Done open();

    // From now on; a second time changes `who` and `wants_to_write`. Closing a socket ends it.
    void watch(int socket, int who, bool wants_to_write);
    // Stays readable until it is read, so that it is told again and again.
    void watch_level(int descriptor, int who);

    // Waits for events that nobody has taken yet, and keeps them for take(). Without a lock; one
    // thread at a time, and the lock is held once between two calls.
    void await(int milliseconds);
    // Calls event(who, ending) for what await() found, or else for what has come since. `ending`:
    // nothing will come after what the socket holds, and no other event will say so. With the lock.
    template <typename Event>
    void take(Event&& event) {
        const int kept = kept_count_.exchange(0, std::memory_order_acquire);
        Found fresh;
        const int count = kept != 0 ? kept : ask(fresh, 0);
        const Found& found = kept != 0 ? kept_ : fresh;
        for (int index = 0; index < count; ++index)
            tell(event, found[static_cast<std::size_t>(index)]);
    }

  private:
    using Found = std::array<epoll_event, 64>;

    template <typename Event>
    static void tell(Event& event, const epoll_event& found) {
        event(static_cast<int>(found.data.fd),
              (found.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    }
    [[nodiscard]] int ask(Found& found, int milliseconds) const;

    FileDescriptor epoll_;
    Found kept_{};
    std::atomic<int> kept_count_{0};
};

}  // namespace mpi_bridge
