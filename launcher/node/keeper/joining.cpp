// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/joining.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/lock.hpp"

namespace batchai::node {

namespace {

constexpr int greeting_milliseconds = 10000;

using Handles = std::array<base::FileDescriptor, keeper_handles>;

tl::unexpected<base::Error> keeper_error(const base::Root& place, std::string_view what) {
    return base::fail(fmt::format("the container's keeper {}", what), place.path);
}

std::optional<Handles> receive_handles(int socket) {
    pollfd waiting{socket, POLLIN, 0};
    if (poll(&waiting, 1, greeting_milliseconds) <= 0) return std::nullopt;
    char greeting = 0;
    iovec data{&greeting, 1};
    std::array<int, keeper_handles> numbers{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof numbers)> space{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || greeting != keeper_greeting)
        return std::nullopt;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof numbers))
        return std::nullopt;
    std::memcpy(numbers.data(), CMSG_DATA(header), sizeof numbers);
    Handles handles;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        handles[i].reset(numbers[i]);
    return handles;
}

bool is_user_namespace_of_ours(int handle) {
    uid_t owner = 0;
    return ioctl(handle, NS_GET_NSTYPE) == CLONE_NEWUSER &&
           ioctl(handle, NS_GET_OWNER_UID, &owner) == 0 && owner == geteuid();
}

bool are_ours(const Handles& handles) {
    const base::FileDescriptor owner(ioctl(handles[mount_namespace].get(), NS_GET_USERNS));
    return is_user_namespace_of_ours(handles[outer_user_namespace].get()) &&
           is_user_namespace_of_ours(handles[rank_user_namespace].get()) &&
           ioctl(handles[mount_namespace].get(), NS_GET_NSTYPE) == CLONE_NEWNS && owner.valid() &&
           is_user_namespace_of_ours(owner.get());
}

}  // namespace

base::Result<base::FileDescriptor> lock_place(const base::Root& place,
                                              std::chrono::seconds deadline) {
    base::FileDescriptor lock =
        base::open_beneath(place.directory.get(), keeper_lock, O_RDWR | O_CREAT, 0600);
    if (!lock.valid())
        return base::fail(fmt::format("cannot be opened: {}", std::strerror(errno)),
                          fmt::format("{}/{}", place.path, keeper_lock));
    if (base::lock_by(lock.get(), std::chrono::steady_clock::now() + deadline)) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR)
        return base::fail(fmt::format("cannot be locked: {}", std::strerror(errno)),
                          fmt::format("{}/{}", place.path, keeper_lock));
    return base::fail(fmt::format("is locked for more than {} s: another step of the job makes the "
                                  "container, or what an earlier one wrote is still being stored",
                                  deadline.count()),
                      fmt::format("{}/{}", place.path, keeper_lock));
}

base::Result<std::optional<Connection>> connect_to_keeper(const base::Root& place) {
    Connection made;
    made.socket = base::FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string_view(keeper_socket).copy(address.sun_path, sizeof address.sun_path - 1);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    if (!made.socket.valid() || fchdir(place.directory.get()) != 0)
        return keeper_error(place, std::strerror(errno));
    const bool connected = connect(made.socket.get(), generic, sizeof address) == 0;
    const int code = errno;
    if (chdir("/") != 0) return keeper_error(place, "/");
    if (!connected && (code == ENOENT || code == ECONNREFUSED)) return std::nullopt;
    if (!connected)
        return keeper_error(place, fmt::format("cannot be reached: {}", std::strerror(code)));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(made.socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid())
        return keeper_error(place, "is not a process of this user");
    made.keeper = peer.pid;
    auto handles = receive_handles(made.socket.get());
    if (!handles) return keeper_error(place, "sent no valid answer");
    if (!are_ours(*handles))
        return keeper_error(place, "sent namespaces that do not belong to this user");
    made.outer = std::move((*handles)[outer_user_namespace]);
    made.mounts = std::move((*handles)[mount_namespace]);
    made.ranks = std::move((*handles)[rank_user_namespace]);
    return made;
}

bool leave(const Connection& connection, std::chrono::seconds at_most) {
    if (shutdown(connection.socket.get(), SHUT_WR) != 0) return true;
    pollfd closed{connection.socket.get(), POLLIN, 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(at_most);
    return poll(&closed, 1, static_cast<int>(patience.count())) > 0;
}

base::Result<void> enter(const Connection& connection, Identity identity) {
    // The ranks' user namespace is entered last, because it has no rights over the mounts.
    const bool entered =
        setns(connection.outer.get(), CLONE_NEWUSER) == 0 &&
        setns(connection.mounts.get(), CLONE_NEWNS) == 0 &&
        (identity == Identity::root || setns(connection.ranks.get(), CLONE_NEWUSER) == 0) &&
        chdir("/") == 0;
    if (entered) return {};
    return base::fail(fmt::format("cannot enter the job's container: {}", std::strerror(errno)));
}

}  // namespace batchai::node
