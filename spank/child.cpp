// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/child.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/protocol.h"

namespace batchai::spank {

namespace {

constexpr int first_descriptor = 3;

// Writes a reply that says what failed before the program could run, and ends the process.
// Async-signal-safe.
[[noreturn]] void give_up(int reply, const char* what, const char* where) {
    const int code = errno;
    const char* const why = strerrordesc_np(code);
    const std::array<const char*, 5> parts{what, where, ": ", why == nullptr ? "?" : why, ""};
    batchai_reply_header header{
        BATCHAI_PROTOCOL_MAGIC, BATCHAI_PROTOCOL_VERSION, BATCHAI_STATUS_FAILED, 0, 0, 0};
    for (const char* part : parts)
        header.text_length += static_cast<uint32_t>(strlen(part));
    if (reply >= 0 && write(reply, &header, sizeof header) == sizeof header) {
        for (const char* part : parts) {
            if (write(reply, part, strlen(part)) < 0) break;
        }
    }
    _exit(127);
}

void reset_signals() {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
}

// slurmstepd is protected from the out-of-memory killer. A program of the user's must not be.
void give_up_memory_protection() {
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, "0", 1) != 1) {
        // Best effort: the file is there on every Linux, but not always writable.
    }
    close(file);
}

// In some hooks slurmstepd has the user's effective id. Here and below, raw system calls are used,
// because the wrappers of the C library would look for slurmstepd's threads, which do not exist in
// this process.
bool regain_root() {
    return geteuid() == 0 || getuid() != 0 || syscall(SYS_setresuid, -1, 0, -1) == 0;
}

bool drop_to(const User& user) {
    if (geteuid() == 0) {
        if (syscall(SYS_setgroups, user.group_count, user.groups) != 0) return false;
        if (syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0) return false;
        if (syscall(SYS_setresuid, user.uid, user.uid, user.uid) != 0) return false;
    }
    // A slurmd that does not run as root can only run jobs of its own user.
    errno = EPERM;
    if (getuid() != user.uid || geteuid() != user.uid || getegid() != user.gid) return false;
    if (user.uid == 0) return true;
    if (syscall(SYS_setresuid, 0, 0, 0) == 0) return false;
    // A user whose own group is root's has nothing to regain there.
    return user.gid == 0 || syscall(SYS_setresgid, -1, 0, -1) != 0;
}

bool place_descriptors(const std::array<int, 4>& descriptors, int count, int null) {
    // All descriptors are duplicated above the targets first, so that none is overwritten while
    // it is still needed.
    std::array<int, 4> safe{};
    for (int i = 0; i < count; ++i) {
        safe[static_cast<std::size_t>(i)] =
            fcntl(descriptors[static_cast<std::size_t>(i)], F_DUPFD, 64);
        if (safe[static_cast<std::size_t>(i)] < 0) return false;
    }
    for (int standard = 0; standard < first_descriptor; ++standard) {
        if (dup2(null, standard) < 0) return false;
    }
    for (int i = 0; i < count; ++i) {
        if (dup2(safe[static_cast<std::size_t>(i)], first_descriptor + i) < 0) return false;
    }
    return syscall(SYS_close_range, first_descriptor + count, ~0U, 0) == 0;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (const std::string& word : words)
        out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
}

}  // namespace

bool start_as_user(const Program& program, const User& user, Child& child) {
    const std::vector<char*> arguments = pointers(program.arguments);
    const std::vector<char*> environment = pointers(program.environment);
    std::array<int, 4> descriptors{};
    const int count = static_cast<int>(program.descriptors.size());
    for (std::size_t i = 0; i < program.descriptors.size(); ++i)
        descriptors.at(i) = program.descriptors[i];

    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        setsid();
        reset_signals();
        give_up_memory_protection();
        const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0) give_up(program.reply, "cannot open ", "/dev/null");
        if (!regain_root()) give_up(program.reply, "cannot become root again", "");
        if (!program.group.path.empty() && !enter_group(program.group))
            give_up(program.reply, "cannot enter the control group ", program.group.path.c_str());
        if (!drop_to(user)) give_up(program.reply, "cannot become the job's user", "");
        if (chdir("/") != 0) give_up(program.reply, "cannot enter ", "/");
        if (!place_descriptors(descriptors, count, null))
            give_up(program.reply, "cannot pass descriptors to ", arguments[0]);
        const int reply = program.reply < 0 ? -1 : BATCHAI_REPLY_DESCRIPTOR;
        execve(arguments[0], arguments.data(), environment.data());
        give_up(reply, "cannot start ", arguments[0]);
    }
    child.pid = pid;
    child.handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (child.handle >= 0) return true;
    const int code = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    child.pid = -1;
    errno = code;
    return false;
}

bool wait_readable(int descriptor, int seconds) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::seconds(seconds);
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd waiting{descriptor, POLLIN, 0};
        const int ready = poll(&waiting, 1, left > 0 ? static_cast<int>(left) : 0);
        if (ready > 0) return true;
        if (left <= 0) return false;
        if (ready < 0 && errno != EINTR) return false;
    }
}

int end_child(Child& child, int seconds) {
    if (child.handle < 0) return -1;
    if (!wait_readable(child.handle, seconds)) {
        // The pidfd is used because slurmstepd reaps every child that it sees, so that the process
        // id may belong to another process by now.
        syscall(SYS_pidfd_send_signal, child.handle, SIGKILL, nullptr, 0);
        static_cast<void>(wait_readable(child.handle, seconds_to_die));
    }
    siginfo_t ended{};
    const int waited = waitid(P_PIDFD, static_cast<id_t>(child.handle), &ended, WEXITED | WNOHANG);
    close(child.handle);
    child = Child{};
    return waited == 0 && ended.si_code == CLD_EXITED ? ended.si_status : -1;
}

}  // namespace batchai::spank
