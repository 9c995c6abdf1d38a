// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/steward.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/volumes/apart.hpp"
#include "node/volumes/flush.hpp"
#include "node/volumes/rclone.hpp"

namespace batchai::node {

namespace {

constexpr char serve_byte = 's';
constexpr char finish_byte = 'f';
// In seconds, behind finish_byte in the same write.
using FlushLimit = std::int64_t;
constexpr FlushLimit no_limit = -1;
// To end rclone and to write a message, beyond what the flush may take.
constexpr int farewell_seconds = 15;
constexpr std::chrono::seconds rclone_farewell{3};

// Between fork and exec.
[[noreturn]] void become_rclone(const RemoteMount& remote, const base::Arguments& arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGTERM, SIG_DFL);
    const int log = open(remote.slot.log().c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (log < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
        dup2(remote.device.get(), rclone_fuse_descriptor) < 0 ||
        fcntl(rclone_fuse_descriptor, F_SETFD, 0) != 0)
        _exit(126);
    std::vector<char*> words;
    for (const std::string& word : arguments)
        words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    std::vector<char*> variables;
    for (const std::string& entry : remote.environment)
        variables.push_back(const_cast<char*>(entry.c_str()));
    variables.push_back(nullptr);
    execvpe(words.front(), words.data(), variables.data());
    const std::string complaint =
        errno == ENOENT ? "Failed to start: rclone is not installed on this node\n"
                        : fmt::format("Failed to start rclone: {}\n", std::strerror(errno));
    if (write(2, complaint.data(), complaint.size()) < 0) _exit(126);
    _exit(127);
}

std::vector<pid_t> start_all(const std::vector<RemoteMount>& mounts) {
    std::vector<pid_t> children;
    for (const RemoteMount& remote : mounts) {
        const auto arguments = serve_arguments(*remote.mount, remote.slot.cache());
        const pid_t child = fork();
        if (child == 0) become_rclone(remote, arguments);
        children.push_back(child);
    }
    return children;
}

void end_all(const std::vector<pid_t>& children) {
    for (const int number : {SIGTERM, SIGKILL}) {
        const auto end = Clock::now() + rclone_farewell;
        for (const pid_t child : children) {
            // One that has ended already is ours to reap, so the number is nobody else's.
            if (child > 0 && waitpid(child, nullptr, WNOHANG) == 0) kill(child, number);
        }
        bool all = true;
        for (const pid_t child : children) {
            int status = 0;
            all = (child <= 0 || ends_by(child, end, status)) && all;
        }
        if (all) return;
    }
}

// The next byte of the control pipe; its end is one too, namely zero.
char next_byte(int control) {
    char byte = 0;
    while (true) {
        const ssize_t count = read(control, &byte, 1);
        if (count == 1) return byte;
        if (count == 0 || errno != EINTR) return 0;
    }
}

// What comes behind finish_byte.
std::optional<std::chrono::seconds> next_limit(int control) {
    FlushLimit limit = no_limit;
    if (read(control, &limit, sizeof limit) != sizeof limit || limit == no_limit) return {};
    return std::chrono::seconds(limit);
}

// What the starter has open is not ours to keep open: whoever waits for the end of a pipe of its
// own would wait for us.
void close_all_but(std::vector<int> kept) {
    std::sort(kept.begin(), kept.end());
    int first = STDERR_FILENO + 1;
    for (const int descriptor : kept) {
        if (descriptor > first)
            close_range(static_cast<unsigned>(first), static_cast<unsigned>(descriptor - 1), 0);
        first = std::max(first, descriptor + 1);
    }
    close_range(static_cast<unsigned>(first), ~0U, 0);
}

[[noreturn]] void be_steward(const std::vector<RemoteMount>& mounts,
                             const std::string& job_directory, int control, int ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, "batchai-volumes", 0, 0, 0);
    signal(SIGTERM, SIG_IGN);
    std::vector<int> kept{control, ready};
    for (const RemoteMount& remote : mounts)
        kept.insert(kept.end(), {remote.device.get(), remote.slot.lock()});
    close_all_but(std::move(kept));
    const bool apart = unshare(CLONE_NEWNS) == 0;
    const int code = apart ? 0 : errno;
    if (write(ready, &code, sizeof code) != sizeof code || !apart) _exit(1);
    close(ready);
    if (next_byte(control) != serve_byte) _exit(0);
    try {
        const auto children = start_all(mounts);
        for (const RemoteMount& remote : mounts)
            close(remote.device.get());
        if (next_byte(control) == finish_byte)
            flush_volumes(mounts, job_directory, next_limit(control));
        end_all(children);
        if (!children.empty()) report_unwritten(mounts, job_directory);
    } catch (const std::exception& error) {
        Trace(job_directory).line(fmt::format("volumes: {}", error.what()));
        _exit(1);
    }
    _exit(0);
}

}  // namespace

Steward::Steward(Steward&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      control_(std::move(other.control_)),
      patience_seconds_(other.patience_seconds_) {}

Steward& Steward::operator=(Steward&& other) noexcept {
    kill_now();
    process_ = std::exchange(other.process_, -1);
    control_ = std::move(other.control_);
    patience_seconds_ = other.patience_seconds_;
    return *this;
}

Steward::~Steward() {
    kill_now();
}

base::Result<Steward> Steward::start(const std::vector<RemoteMount>& mounts,
                                     const std::string& job_directory) {
    std::array<int, 2> control{};
    std::array<int, 2> ready{};
    if (pipe2(control.data(), O_CLOEXEC) != 0)
        return base::fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    base::FileDescriptor control_read(control[0]);
    base::FileDescriptor control_write(control[1]);
    if (pipe2(ready.data(), O_CLOEXEC) != 0)
        return base::fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    const base::FileDescriptor ready_read(ready[0]);
    base::FileDescriptor ready_write(ready[1]);
    const pid_t process = fork();
    if (process < 0) return base::fail(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (process == 0) {
        control_write.reset(-1);
        be_steward(mounts, job_directory, control_read.get(), ready_write.get());
    }
    ready_write.reset(-1);
    int patience = farewell_seconds;
    for (const RemoteMount& remote : mounts)
        patience = std::max(patience, remote.mount->flush_seconds + farewell_seconds);
    Steward steward(process, std::move(control_write), patience);
    int code = EPIPE;
    if (read(ready_read.get(), &code, sizeof code) == sizeof code && code == 0) return steward;
    return base::fail(fmt::format("cannot make a mount namespace: {}", std::strerror(code)));
}

void Steward::serve() {
    if (write(control_.get(), &serve_byte, 1) != 1) {
        // It has died: the mounts do not answer, which is found out next.
    }
}

void Steward::finish(std::optional<std::chrono::seconds> at_most) {
    if (process_ <= 0) return;
    std::array<char, 1 + sizeof(FlushLimit)> message{finish_byte};
    const FlushLimit limit = at_most ? at_most->count() : no_limit;
    std::memcpy(message.data() + 1, &limit, sizeof limit);
    if (write(control_.get(), message.data(), message.size()) < 0) {
        // It has died; what it left in the cache is the clean-up's.
    }
    auto patience = std::chrono::seconds(patience_seconds_);
    if (at_most) patience = std::min(patience, *at_most + std::chrono::seconds(farewell_seconds));
    int status = 0;
    if (ends_by(process_, Clock::now() + patience, status)) process_ = -1;
    kill_now();
}

void Steward::kill_now() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    int status = 0;
    if (ends_by(process_, Clock::now() + std::chrono::seconds(1), status)) process_ = -1;
    process_ = -1;
}

}  // namespace batchai::node
