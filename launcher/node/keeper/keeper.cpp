// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/keeper.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.hpp"
#include "node/keeper/keeper_service.hpp"
#include "node/rootfs/container_root.hpp"
#include "node/trace.hpp"
#include "node/volumes/volumes.hpp"

namespace batchai::node {

namespace {

constexpr int answer_descriptor = 3;
constexpr char ready_byte = '\0';

// An error on its way through the pipe: its three texts, zero bytes between them.
std::string packed(const base::Error& error) {
    return fmt::format("{}{}{}{}{}", error.what, '\0', error.where, '\0', error.hint);
}

base::Error unpacked(const std::string& bytes) {
    if (bytes.empty())
        return {"the container's keeper ended without a word", {}, {}, base::ExitCode::failed};
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

// From here on this is the first process of a PID namespace, so that whatever is started on behalf
// of the container, such as the image's ldconfig and what that starts, ends with the keeper.
// Returns in the new process only.
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
    Root node_root;
    Root directory;
    base::FileDescriptor lock;
};

base::Result<Place> open_place(const KeeperRequest& request) {
    auto node_root = open_private_directory(request.plan.directories.node_root);
    if (!node_root) return tl::unexpected<base::Error>(node_root.error());
    auto directory = make_beneath(*node_root, request.place);
    if (!directory) return tl::unexpected<base::Error>(directory.error());
    base::FileDescriptor lock = open_beneath(directory->get(), keeper_lock, O_RDWR | O_CREAT, 0600);
    std::string path = node_root->path + '/' + request.place;
    if (!lock.valid())
        return base::fail(fmt::format("cannot be opened: {}", std::strerror(errno)),
                          path + '/' + keeper_lock);
    return Place{std::move(*node_root), {std::move(*directory), std::move(path)}, std::move(lock)};
}

struct Built {
    base::FileDescriptor listener;
    base::FileDescriptor rank_namespace;
    base::FileDescriptor lock;
    std::vector<FuseServer> servers;
    Volumes volumes;
};

base::Result<Built> build(const KeeperRequest& request) {
    auto place = open_place(request);
    if (!place) return tl::unexpected<base::Error>(place.error());
    const Trace trace(request.plan.directories.job_directory);
    if (!request.identities.remark.empty()) trace.line(request.identities.remark);
    // While its name can be reached; nobody connects before it listens.
    auto listener = bind_keeper_socket(place->directory);
    if (!listener) return tl::unexpected<base::Error>(listener.error());
    auto entered = enter_user_namespace(request.identities)
                       .and_then([] { return leave_mounts(); })
                       .and_then([] { return become_first_process(); });
    if (!entered) return tl::unexpected<base::Error>(entered.error());
    // Anew: what was opened before is in the mounts that were left, where nothing can be mounted.
    place = open_place(request);
    if (!place) return tl::unexpected<base::Error>(place.error());
    auto volumes = Volumes::mount(request.plan, place->node_root, request.job_id, trace);
    if (!volumes) return tl::unexpected<base::Error>(volumes.error());
    auto servers =
        change_to_container_root({request.plan, request.places, request.files, request.devices,
                                  request.job_id, !request.identities.full()},
                                 place->directory, trace);
    if (!servers) return tl::unexpected<base::Error>(servers.error());
    auto ranks = make_rank_namespace(request.identities);
    if (!ranks) return tl::unexpected<base::Error>(ranks.error());
    return Built{std::move(*listener), std::move(*ranks), std::move(place->lock),
                 std::move(*servers), std::move(*volumes)};
}

void answer(std::string_view bytes) {
    if (write(answer_descriptor, bytes.data(), bytes.size()) < 0) {
        // The starter is gone; nobody will connect.
    }
    close(answer_descriptor);
}

[[noreturn]] void be_keeper(const KeeperRequest& request) {
    try {
        auto built = build(request);
        if (!built) {
            answer(packed(built.error()));
            _exit(1);
        }
        KeeperService service(std::move(built->listener), std::move(built->rank_namespace),
                              std::move(built->lock));
        if (auto listening = service.listen(); !listening) {
            answer(packed(listening.error()));
            _exit(1);
        }
        answer(std::string_view(&ready_byte, 1));
        service.serve();
        // The last step waits for it: its connection is still open.
        built->volumes.finish();
        _exit(0);
    } catch (const std::exception& error) {
        answer(packed({error.what(), "batchai-node", {}, base::ExitCode::failed}));
        _exit(1);
    }
}

// In a process between the starter and the keeper, so that the keeper is nobody's child: Slurm ends
// a step's children with the step, and other steps may need the container longer.
[[noreturn]] void start_detached(const KeeperRequest& request, int answer_end) {
    setsid();
    const pid_t keeper = fork();
    if (keeper != 0) _exit(keeper < 0 ? 1 : 0);
    // Among the descriptors that are closed here is the lock, and what tells batchai.so of the end
    // of the step's own batchai-node.
    if (dup2(answer_end, answer_descriptor) < 0 ||
        close_range(answer_descriptor + 1, ~0U, 0) != 0 ||
        fcntl(answer_descriptor, F_SETFD, FD_CLOEXEC) != 0)
        _exit(1);
    prctl(PR_SET_NAME, "batchai-keeper", 0, 0, 0);
    be_keeper(request);
}

}  // namespace

base::Result<void> start_keeper(const KeeperRequest& request) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return base::fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    const base::FileDescriptor read_end(ends[0]);
    base::FileDescriptor write_end(ends[1]);
    const pid_t between = fork();
    if (between < 0) return base::fail(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (between == 0) start_detached(request, write_end.get());
    write_end.reset(-1);
    waitpid(between, nullptr, 0);
    std::string bytes;
    std::array<char, 4096> chunk{};
    while (true) {
        const ssize_t count = read(read_end.get(), chunk.data(), chunk.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        bytes.append(chunk.data(), static_cast<std::size_t>(count));
    }
    if (bytes == std::string_view(&ready_byte, 1)) return {};
    return tl::unexpected<base::Error>(unpacked(bytes));
}

}  // namespace batchai::node
