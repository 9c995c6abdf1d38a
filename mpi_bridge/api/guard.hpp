// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/catching.hpp"
#include "core/failure.hpp"
#include "core/fork_guard.hpp"

namespace mpi_bridge {

// Keeps the text for mpib_last_error() of the calling thread and returns the status.
mpib_status remember(const Failure& failure) noexcept;

// The text for mpib_last_error(). In a forked child it always says that the library does not work
// there, which is the only failure that can have happened.
[[nodiscard]] const char* remembered_text() noexcept;

// The failure of a call before mpib_init().
[[nodiscard]] tl::unexpected<Failure> not_initialized(std::string_view call);

// Runs the body of a C function: no exception leaves it, and failures are remembered. The body does
// not run in a forked child, where it could wait for a lock that a thread of the parent held.
template <typename Body>
[[nodiscard]] mpib_status guarded(Body&& body) noexcept {
    if (in_forked_child()) return MPIB_ERROR_FORKED;
    try {
        const Done done = catching(body);
        return done ? MPIB_OK : remember(done.error());
    } catch (...) {
        // There was not even memory for the text of the failure.
        return MPIB_ERROR_INTERNAL;
    }
}

}  // namespace mpi_bridge
