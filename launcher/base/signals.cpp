// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/signals.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace batchai::base {

HeldSignals::HeldSignals(std::initializer_list<int> numbers) {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : numbers)
        sigaddset(&held, number);
    sigprocmask(SIG_BLOCK, &held, &before_);
    descriptor_.reset(signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK));
}

HeldSignals::~HeldSignals() {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> HeldSignals::next() const {
    signalfd_siginfo info{};
    if (read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
}

std::optional<int> HeldSignals::next_within(std::chrono::milliseconds time) const {
    pollfd waiting{descriptor_.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(time.count()));
    return next();
}

}  // namespace batchai::base
