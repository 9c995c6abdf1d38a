// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace mpi_bridge::torch {

/// Runs this in a thread that nobody joins. It must not throw.
void start_thread(std::function<void()> run);

/// Waits for the end of all these threads, at most for some seconds; tells whether they have ended.
/// A thread must not come to Python when the interpreter has gone.
bool await_threads(double seconds);

}  // namespace mpi_bridge::torch
