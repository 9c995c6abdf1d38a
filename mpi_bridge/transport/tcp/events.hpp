// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include <sys/epoll.h>

#include "core/failure.hpp"
#include "core/file_descriptor.hpp"

namespace mpi_bridge {

// Reports on which sockets something has happened. Each event is reported once, so that sockets
// which are read without waiting for an event cost nothing here.
class TcpEvents {
  public:
    // The values of `who` that are not ranks.
    static constexpr int meeting = -1;
    static constexpr int interrupt = -2;

    [[nodiscard]] Done open();

    // Watches the socket from now on; a second call changes `who` and `wants_to_write`. Closing the
    // socket ends the watch.
    void watch(int socket, int who, bool wants_to_write);
    // A descriptor watched in this way is reported until it has been read.
    void watch_level(int descriptor, int who);

    // Waits for events that have not been taken yet, and keeps them for take(). Called without the
    // lock, by one thread at a time; between two calls the lock must have been held once.
    void await(int milliseconds);
    // Calls event(who, ending) for the events that await() found, or else for those that have come
    // since. `ending` means that nothing will follow the data that the socket holds, and that no
    // other event will say so. Called with the lock held.
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
