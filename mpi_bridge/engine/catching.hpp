// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "core/failure.hpp"

namespace mpi_bridge {

// Runs `body`, which returns an Outcome, and makes a failure of an exception: the engine's threads
// have no caller who could catch it.
template <typename Body>
[[nodiscard]] std::invoke_result_t<Body> catching(Body&& body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(MPIB_ERROR_INTERNAL, "out of memory");
    } catch (const std::exception& fault) {
        return fail(MPIB_ERROR_INTERNAL, fault.what());
    }
}

}  // namespace mpi_bridge
