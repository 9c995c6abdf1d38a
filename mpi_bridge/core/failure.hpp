// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "mpi_bridge.h"

namespace mpi_bridge {

// Why something could not be done: the status the caller of the C API sees, and one line of text
// that says what, on which rank and in which step. The text ends without full stop or newline.
struct Failure {
    mpib_status status = MPIB_ERROR_INTERNAL;
    std::string text;
};

template <typename T>
using Outcome = tl::expected<T, Failure>;
using Done = Outcome<void>;

[[nodiscard]] inline tl::unexpected<Failure> fail(mpib_status status, std::string text) {
    return tl::unexpected<Failure>(Failure{status, std::move(text)});
}

// Hands a failure of one outcome on as the failure of another type of outcome.
template <typename T>
[[nodiscard]] tl::unexpected<Failure> pass_on(Outcome<T>&& outcome) {
    return tl::unexpected<Failure>(std::move(outcome).error());
}

}  // namespace mpi_bridge
