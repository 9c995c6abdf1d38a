// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace mpi_bridge {

// Starts a thread that receives none of the program's signals, and neither do threads that it
// starts: the program's handlers expect to run on a thread that the program knows. Faults of the
// thread itself (SIGSEGV, SIGABRT and the like) act as on any thread. The thread calculates in the
// default floating-point mode (DefaultFloatingPoint). Throws std::system_error when the system has
// no thread left.
[[nodiscard]] std::thread start_quiet_thread(std::function<void()> body);

}  // namespace mpi_bridge
