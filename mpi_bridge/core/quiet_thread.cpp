// SPDX-License-Identifier: Apache-2.0
#include "core/quiet_thread.hpp"

#include <csignal>
#include <utility>

#include "core/floating_point.hpp"

namespace mpi_bridge {
namespace {

// A thread inherits the signal mask of its creator, so the creator blocks signals meanwhile.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
            sigdelset(&blocked, fault);
        pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_{};
};

}  // namespace

std::thread start_quiet_thread(std::function<void()> body) {
    const SignalsBlocked blocked;
    return std::thread([body = std::move(body)] {
        // A thread inherits the mode of its creator, too.
        const DefaultFloatingPoint mode;
        body();
    });
}

}  // namespace mpi_bridge
