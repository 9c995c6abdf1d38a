// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>

#include "core/failure.hpp"

namespace mpi_bridge {

// Keeps the text for mpib_last_error() of the calling thread and returns the status.
mpib_status remember(const Failure& failure) noexcept;

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

// The body of a C function: no exception leaves it, and failures are remembered.
template <typename Body>
[[nodiscard]] mpib_status guarded(Body&& body) noexcept {
    try {
        const Done done = without_exceptions(body);
        return done ? MPIB_OK : remember(done.error());
    } catch (...) {
        // Not even the text of the failure could be made.
        return MPIB_ERROR_INTERNAL;
    }
}

}  // namespace mpi_bridge
