// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/keeper.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "node/reply.hpp"
#include "node/rootfs/container_root.hpp"
#include "node/volumes/volumes.hpp"

namespace batchai::node {

namespace {

constexpr int answer_descriptor = 3;
constexpr char ready_byte = '\0';

// Packs an error for the pipe: its three texts, separated by zero bytes.
std::string packed(const base::Error& error) {
    return fmt::format("{}{}{}{}{}", error.what, '\0', error.where, '\0', error.hint);
}

base::Error unpacked(const std::string& bytes) {
    if (bytes.empty())
        return {"the container's keeper ended without an error message",
                {},
                {},
                base::ExitCode::failed};
    const auto parts = base::split(bytes, '\0');
    const auto part = [&](std::size_t i) {
        return i < parts.size() ? std::string(parts[i]) : std::string();
    };
    return {part(0), part(1), part(2), base::ExitCode::failed};
}

base::Result<void> leave_mounts() {
    if (unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0)
        return {};
    return base::fail(fmt::format("cannot make a mount namespace: {}", std::strerror(errno)));
}

// Forks and returns only in the new process, which is the first one of a PID namespace. So
// everything that is started for the container, such as the image's ldconfig and its children, ends
// with the keeper.
base::Result<void> become_first_process() {
    if (unshare(CLONE_NEWPID) != 0)
        return base::fail(fmt::format("cannot make a PID namespace: {}", std::strerror(errno)), {},
                          "the admin must allow them: user.max_pid_namespaces above 0");
    const pid_t first = fork();
    if (first < 0) return base::fail(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (first > 0) _exit(0);
    return {};
}

struct Place {
    base::Root node_root;
    base::Root directory;
    base::FileDescriptor lock;
};

base::Result<Place> open_place(const KeeperRequest& request) {
    auto node_root = TRY(base::open_private_directory(request.plan.directories.node_root));
    auto directory = TRY(base::make_beneath(node_root, request.place));
    base::FileDescriptor lock =
        base::open_beneath(directory.get(), keeper_lock, O_RDWR | O_CREAT, 0600);
    std::string path = node_root.path + '/' + request.place;
    if (!lock.valid())
        return base::fail(fmt::format("cannot be opened: {}", std::strerror(errno)),
                          path + '/' + keeper_lock);
    return Place{std::move(node_root), {std::move(directory), std::move(path)}, std::move(lock)};
}

struct Built {
    base::FileDescriptor listener;
    base::FileDescriptor rank_namespace;
    base::FileDescriptor lock;
    std::vector<FuseServer> servers;
    Volumes volumes;
};

base::Result<Built> build(const KeeperRequest& request) {
    Place place = TRY(open_place(request));
    const Trace trace(request.plan.directories.job_directory);
    if (!request.identities.remark.empty()) trace.line(request.identities.remark);
    // The socket is bound now, while its name can still be reached. Nobody connects before it
    // listens.
    auto listener = TRY(bind_keeper_socket(place.directory));
    const auto image = TRY(open_image(*request.plan.container));
    TRY(enter_user_namespace(request.identities));
    TRY(leave_mounts());
    TRY(become_first_process());
    // The directories are opened again. The earlier descriptors refer to the mount namespace that
    // this process has left, where it cannot mount anything.
    place = TRY(open_place(request));
    auto volumes = TRY(Volumes::mount(request.plan, place.node_root, request.job_id, trace));
    auto servers =
        TRY(change_to_container_root({request.plan, request.places, request.files, request.devices,
                                      request.job_id, !request.identities.full(), image},
                                     place.directory, trace));
    auto ranks = TRY(make_rank_namespace(request.identities));
    return Built{std::move(listener), std::move(ranks), std::move(place.lock), std::move(servers),
                 std::move(volumes)};
}

void answer(std::string_view bytes) {
    if (write(answer_descriptor, bytes.data(), bytes.size()) < 0) {
        // The process that started the keeper is gone, so nobody will connect.
    }
    close(answer_descriptor);
}

int be_keeper(const KeeperRequest& request) {
    try {
        auto built = build(request);
        if (!built) {
            answer(packed(built.error()));
            return 1;
        }
        KeeperService service(std::move(built->listener), std::move(built->rank_namespace),
                              std::move(built->lock));
        if (auto listening = service.listen(); !listening) {
            answer(packed(listening.error()));
            return 1;
        }
        answer(std::string_view(&ready_byte, 1));
        service.serve();
        // The last step waits for this, because its connection is still open.
        built->volumes.finish();
        // Nothing is unmounted here, because the namespaces end with this process.
        _exit(0);
    } catch (const std::exception& error) {
        answer(packed({error.what(), "batchai-node", {}, base::ExitCode::failed}));
        return 1;
    }
}

// The keeper is not a child of batchai-node: Slurm kills a step's child processes when the step
// ends, and other steps may need the container longer.
int begin_keeper(const KeeperRequest& request, int answer_end) {
    // The descriptors that are closed here include the lock, and the pipe whose end tells
    // batchai.so that the step's own batchai-node has ended.
    if (dup2(answer_end, answer_descriptor) < 0 ||
        close_range(answer_descriptor + 1, ~0U, 0) != 0 ||
        fcntl(answer_descriptor, F_SETFD, FD_CLOEXEC) != 0)
        return 1;
    prctl(PR_SET_NAME, "batchai-keeper", 0, 0, 0);
    return be_keeper(request);
}

}  // namespace

base::Result<void> start_keeper(const KeeperRequest& request) {
    base::Pipe answer = TRY(base::make_pipe());
    TRY(base::fork_detached([&] { return begin_keeper(request, answer.write_end.get()); }));
    answer.write_end.reset(-1);
    const std::string bytes = base::read_to_end(answer.read_end.get());
    if (bytes == std::string_view(&ready_byte, 1)) return {};
    return tl::unexpected<base::Error>(unpacked(bytes));
}

namespace {

constexpr int backlog = 64;
constexpr std::chrono::seconds first_client_deadline{10};
constexpr int look_milliseconds = 50;  // polling interval while there is no client
constexpr int reap_milliseconds = 10000;

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

base::Result<base::FileDescriptor> bind_keeper_socket(const base::Root& place) {
    base::FileDescriptor listener(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // The name is relative, because the path of the directory may be too long for a socket address.
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
        // This may be the last client, which waits until the container has ended.
        last_client_ = std::move(client);
        return true;
    });
    if (!clients_.empty()) last_client_.reset(-1);
}

// A process must hold the lock to connect. If this process has the lock and no connection is
// waiting, no other client can come.
bool KeeperService::may_end() {
    if (!base::lock_now(lock_.get())) return false;
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (poll(&waiting, 1, 0) == 0) return true;
    base::unlock(lock_.get());
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
        const int ready =
            poll(watched.data(), watched.size(), all_there ? reap_milliseconds : look_milliseconds);
        // Orphans in the PID namespace become children of its first process, which must reap them.
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        if (ready <= 0) continue;
        if (watched.front().revents != 0) admit();
        drop_ended();
    }
}

}  // namespace batchai::node
