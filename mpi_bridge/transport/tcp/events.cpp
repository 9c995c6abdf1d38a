// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/events.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace mpi_bridge {

Done TcpEvents::open() {
    epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
    if (epoll_) return {};
    return fail(MPIB_ERROR_INTERNAL, "epoll_create1: " + std::system_category().message(errno));
}

void TcpEvents::watch(int socket, int who, bool wants_to_write) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    if (wants_to_write) event.events |= EPOLLOUT;
    event.data.fd = who;
    if (epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, socket, &event) == 0) return;
    (void)epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket, &event);
}

void TcpEvents::watch_level(int descriptor, int who) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = who;
    (void)epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event);
}

int TcpEvents::ask(Found& found, int milliseconds) const {
    const int most = static_cast<int>(found.size());
    return std::max(0, epoll_wait(epoll_.number(), found.data(), most, milliseconds));
}

void TcpEvents::await(int milliseconds) {
    if (kept_count_.load(std::memory_order_acquire) != 0) return;
    kept_count_.store(ask(kept_, milliseconds), std::memory_order_release);
}

}  // namespace mpi_bridge
