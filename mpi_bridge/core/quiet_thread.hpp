// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace mpi_bridge {

// Starts a thread that the program's signals are not delivered to, nor to threads it starts: their
// handlers expect a thread that the program knows. Faults of the thread itself (SIGSEGV, SIGABRT
// and the like) act as anywhere. Throws std::system_error when no thread is to be had.
[[nodiscard]] std::thread start_quiet_thread(std::function<void()> body);

}  // namespace mpi_bridge
