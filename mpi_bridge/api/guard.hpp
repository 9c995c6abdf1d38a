// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>

#include "core/failure.hpp"
#include "core/fork_guard.hpp"

namespace mpi_bridge {

// Keeps the text for mpib_last_error() of the calling thread and returns the status.
mpib_status remember(const Failure& failure) noexcept;

// In a forked child, where only that can have failed: that the library does not work there.
[[nodiscard]] const char* remembered_text() noexcept;

// Runs `body` (which returns Done) and turns failures, exceptions included, into failures.
template <typename Body>
[[nodiscard]] Done without_exceptions(Body&& body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(MPIB_ERROR_INTERNAL, "out of memory");
    } catch (const std::exception& fault) {
        return fail(MPIB_ERROR_INTERNAL, fault.what());
    } catch (...) {
        return fail(MPIB_ERROR_INTERNAL, "an unknown exception");
    }
}

// The body of a C function: no exception leaves it, and failures are remembered. It does not run in
// a forked child, where it could wait for a lock that a thread of the parent held.
template <typename Body>
[[nodiscard]] mpib_status guarded(Body&& body) noexcept {
    if (in_forked_child()) return MPIB_ERROR_FORKED;
    try {
        const Done done = without_exceptions(body);
        return done ? MPIB_OK : remember(done.error());
    } catch (...) {
        // Not even the text of the failure could be made.
        return MPIB_ERROR_INTERNAL;
    }
}

}  // namespace mpi_bridge
