// SPDX-License-Identifier: Apache-2.0
//
// The handler only notes the signal and wakes the helper thread through an eventfd, because it may
// have interrupted anything, the memory allocator included.
#include "core/ending_signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/bounded_call.hpp"
#include "core/quiet_thread.hpp"

namespace mpi_bridge {
namespace {

constexpr int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGABRT};

struct Watch {
    std::function<void()> farewell;
    Seconds patience{0};
    pid_t owner = 0;
    int alarm = -1;           // eventfd: the handler wakes the helper
    int farewell_said = -1;   // eventfd: the helper releases the thread that aborted
    int longest_wait_ms = 0;  // limit for that thread; longer than the helper takes
    std::atomic<int> signal{0};
};

// Never freed: a signal may come until the very end of the process.
std::atomic<Watch*> the_watch{nullptr};
static_assert(std::atomic<Watch*>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Takes effect at once, or, in the signal's own handler, when the handler returns.
void die_of(int signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    raise(signal);
}

void ring(int descriptor) {
    const std::uint64_t one = 1;
    // The write fails only when the counter is full, and the reader is awake then.
    (void)!write(descriptor, &one, sizeof one);
}

void on_signal(int signal) {
    const int saved = errno;
    Watch& watch = *the_watch.load();
    int none = 0;
    if (getpid() != watch.owner || !watch.signal.compare_exchange_strong(none, signal)) {
        die_of(signal);
    } else {
        ring(watch.alarm);
        if (signal == SIGABRT) {
            pollfd said{watch.farewell_said, POLLIN, 0};
            (void)poll(&said, 1, watch.longest_wait_ms);
            die_of(signal);
        }
    }
    errno = saved;
}

// The body of the helper thread, which usually waits for as long as the process lives.
void await_signal(Watch& watch) {
    std::uint64_t count = 0;
    while (read(watch.alarm, &count, sizeof count) != sizeof count) {
        if (errno != EINTR) return;
    }
    try {
        // A farewell that does not end in time is left behind, since the process ends now.
        (void)run_within(Deadline::in(watch.patience), watch.farewell);
    } catch (const std::system_error&) {
        // There is no thread to run the farewell, but the signal must take effect all the same.
    }
    const int signal = watch.signal;
    if (signal == SIGABRT) {
        ring(watch.farewell_said);
        return;
    }
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    die_of(signal);
    // Only the first process of a PID namespace reaches this line: default actions do not end it.
    _exit(128 + signal);
}

void catch_unless_handled(int signal) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0) return;
    const bool by_default = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
    if (!by_default) return;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

tl::unexpected<Failure> no_watch(const std::string& why) {
    return fail(MPIB_ERROR_INTERNAL, "cannot prepare for the signals that end a process: " + why);
}

}  // namespace

Done take_leave_on_signals(std::function<void()> farewell, Seconds patience) {
    if (the_watch.load() != nullptr) return {};
    auto watch = std::make_unique<Watch>();
    watch->farewell = std::move(farewell);
    watch->patience = patience;
    watch->owner = getpid();
    constexpr int margin_ms = 500;
    watch->longest_wait_ms =
        static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count()) +
        margin_ms;
    watch->alarm = eventfd(0, EFD_CLOEXEC);
    watch->farewell_said = eventfd(0, EFD_CLOEXEC);
    if (watch->alarm < 0 || watch->farewell_said < 0) {
        const int why = errno;
        for (const int descriptor : {watch->alarm, watch->farewell_said}) {
            if (descriptor >= 0) close(descriptor);
        }
        return no_watch(std::strerror(why));
    }
    Watch* const kept = watch.release();
    try {
        start_quiet_thread([kept] { await_signal(*kept); }).detach();
    } catch (const std::system_error& fault) {
        close(kept->alarm);
        close(kept->farewell_said);
        delete kept;
        return no_watch(fault.what());
    }
    the_watch = kept;
    for (const int signal : caught)
        catch_unless_handled(signal);
    return {};
}

}  // namespace mpi_bridge
