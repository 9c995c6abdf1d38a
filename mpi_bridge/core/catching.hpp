// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "core/failure.hpp"

namespace mpi_bridge {

// Runs `body`, which returns an Outcome, and turns an exception into a failure: no exception
// crosses the C API, and the engine's threads have no caller that could catch one.
template <typename Body>
[[nodiscard]] std::invoke_result_t<Body> catching(Body&& body) {
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

}  // namespace mpi_bridge
