// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// Lets this process run a farewell when a signal ends it.
//
// This catches those of SIGTERM, SIGINT, SIGHUP and SIGABRT that have no handler and are not
// ignored at the time of the call. The first one that comes runs `farewell` on a helper thread, for
// at most `patience`, and then ends the process by the signal's default action, so that a process
// that waits for this one sees the signal. A second signal ends the process at once. After SIGABRT
// (abort(), an uncaught C++ exception) the thread that raised it waits for the farewell and then
// dies in its place; after the other signals all threads go on meanwhile.
//
// UCX installs a handler for SIGHUP when it is loaded (UCX_DEBUG_SIGNO), so that signal stays with
// UCX in programs that are linked with it.
//
// In forked children the signals have their default effect. SIGKILL and _exit() cannot be caught.
// SIGSEGV, SIGBUS, SIGFPE and SIGILL are not caught, because nothing in memory can be trusted after
// them.
//
// This takes effect once per process; later calls do nothing. `farewell` runs while other threads
// may be anywhere in the program, so it must not wait for them. Fails with MPIB_ERROR_INTERNAL when
// the system has no descriptor or thread left; nothing is caught then.
[[nodiscard]] Done take_leave_on_signals(std::function<void()> farewell, Seconds patience);

}  // namespace mpi_bridge
