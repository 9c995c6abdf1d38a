// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/apart.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace batchai::node {

bool ends_by(pid_t child, Clock::time_point end, int& status) {
    constexpr std::chrono::microseconds longest_pause{20000};
    std::chrono::microseconds pause{200};
    while (true) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) return true;
        if (Clock::now() >= end) return false;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, longest_pause);
    }
}

Apart::Apart(const std::function<int()>& work) : child_(fork()) {
    if (child_ < 0) {
        result_ = errno;
        return;
    }
    if (child_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    _exit(work());
}

Apart::Apart(Apart&& other) noexcept
    : child_(std::exchange(other.child_, -1)), result_(other.result_) {}

Apart::~Apart() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, WNOHANG);
}

std::optional<int> Apart::result_by(Clock::time_point end) {
    if (result_ || child_ <= 0) return result_;
    int status = 0;
    if (!ends_by(child_, end, status)) return std::nullopt;
    child_ = -1;
    result_ = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return result_;
}

}  // namespace batchai::node
