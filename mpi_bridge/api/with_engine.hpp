// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/guard.hpp"
#include "api/library.hpp"
#include "engine/engine.hpp"

namespace mpi_bridge {

// Runs the body of a C function, which is given the engine and returns Done, and remembers its
// failure.
template <typename Body>
mpib_status with_engine(const char* call, Body&& body) noexcept {
    return guarded([&]() -> Done {
        const LentEngine::Loan lent(Library::instance().engine());
        if (lent.engine() == nullptr) return not_initialized(call);
        return body(*lent.engine());
    });
}

// For functions that return a number and do not fail; returns `otherwise` if there is no engine.
template <typename Body>
int number_from_engine(int otherwise, Body&& body) noexcept {
    int number = otherwise;
    (void)guarded([&]() -> Done {
        const LentEngine::Loan lent(Library::instance().engine());
        if (lent.engine() != nullptr) number = body(*lent.engine());
        return {};
    });
    return number;
}

}  // namespace mpi_bridge
