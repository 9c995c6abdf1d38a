// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// Lets this process take its leave when a signal ends it.
//
// Those of SIGTERM, SIGINT, SIGHUP and SIGABRT that have no handler and are not ignored now are
// caught from now on. The first one that comes runs `farewell` on a helper thread, for at most
// `patience`, and then ends the process as it would have done by itself, so that whoever waits for
// the process sees the signal. A second one ends it at once. After SIGABRT (abort(), an uncaught
// C++ exception) the thread that raised it waits for the farewell and dies where it stands; after
// the others the threads go on meanwhile.
//
// UCX has a handler for SIGHUP from its loading on (UCX_DEBUG_SIGNO), so that one stays UCX's in
// programs that are linked with it.
//
// In forked children the signals do what they do by default. SIGKILL and _exit() can not be caught;
// SIGSEGV, SIGBUS, SIGFPE and SIGILL are not, because nothing in memory is to be trusted then.
//
// Once per process: later calls do nothing. `farewell` runs while other threads are anywhere; it
// must not wait for them. Fails (MPIB_ERROR_INTERNAL) when the system gives no descriptor or
// thread; nothing is caught then.
[[nodiscard]] Done take_leave_on_signals(std::function<void()> farewell, Seconds patience);

}  // namespace mpi_bridge
