// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/keeper_service.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/keeper/keeper.hpp"

namespace batchai::node {

namespace {

constexpr int backlog = 64;
constexpr std::chrono::seconds first_client_deadline{10};
constexpr int look_milliseconds = 50;  // while somebody else holds the lock

bool send_handles(int client, const std::array<int, keeper_handles>& handles) {
    char greeting = keeper_greeting;
    iovec data{&greeting, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof handles)> space{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof handles);
    std::memcpy(CMSG_DATA(header), handles.data(), sizeof handles);
    return sendmsg(client, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool is_same_user(int client) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

base::Result<base::FileDescriptor> bind_keeper_socket(const Root& place) {
    base::FileDescriptor listener(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // A relative name: the directory's own may be longer than a socket's may be.
    std::string_view(keeper_socket).copy(address.sun_path, sizeof address.sun_path - 1);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    if (listener.valid() && fchdir(place.directory.get()) == 0 &&
        (unlink(keeper_socket) == 0 || errno == ENOENT) &&
        bind(listener.get(), generic, sizeof address) == 0)
        return listener;
    return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                      fmt::format("{}/{}", place.path, keeper_socket));
}

KeeperService::KeeperService(base::FileDescriptor listener, base::FileDescriptor rank_namespace,
                             base::FileDescriptor lock)
    : listener_(std::move(listener)),
      rank_namespace_(std::move(rank_namespace)),
      lock_(std::move(lock)),
      user_namespace_(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC)),
      mount_namespace_(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) {}

base::Result<void> KeeperService::listen() {
    if (user_namespace_.valid() && mount_namespace_.valid() &&
        ::listen(listener_.get(), backlog) == 0)
        return {};
    return base::fail(
        fmt::format("the container's keeper cannot listen: {}", std::strerror(errno)));
}

void KeeperService::admit() {
    base::FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid() || !is_same_user(client.get())) return;
    std::array<int, keeper_handles> handles{};
    handles[outer_user_namespace] = user_namespace_.get();
    handles[mount_namespace] = mount_namespace_.get();
    handles[rank_user_namespace] = rank_namespace_.get();
    if (!send_handles(client.get(), handles)) return;
    clients_.push_back(std::move(client));
    last_client_.reset(-1);
    had_client_ = true;
}

void KeeperService::drop_ended() {
    std::erase_if(clients_, [&](base::FileDescriptor& client) {
        pollfd state{client.get(), POLLIN, 0};
        if (poll(&state, 1, 0) <= 0) return false;
        // It may be the last, which waits until the container has come to its end.
        last_client_ = std::move(client);
        return true;
    });
    if (!clients_.empty()) last_client_.reset(-1);
}

// Who wants to connect holds the lock: with it in our hands and nobody waiting, nobody will.
bool KeeperService::may_end() {
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return false;
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (poll(&waiting, 1, 0) == 0) return true;
    flock(lock_.get(), LOCK_UN);
    return false;
}

void KeeperService::serve() {
    const auto deadline = std::chrono::steady_clock::now() + first_client_deadline;
    while (true) {
        const bool idle =
            clients_.empty() && (had_client_ || std::chrono::steady_clock::now() > deadline);
        if (idle && may_end()) return;
        std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
        for (const base::FileDescriptor& client : clients_)
            watched.push_back({client.get(), POLLIN, 0});
        const bool all_there = !clients_.empty();
        const int ready = poll(watched.data(), watched.size(), all_there ? -1 : look_milliseconds);
        // Orphans of the PID namespace become children of its first process.
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        if (ready <= 0) continue;
        if (watched.front().revents != 0) admit();
        drop_ended();
    }
}

}  // namespace batchai::node
