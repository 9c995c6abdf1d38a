// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "core/try.hpp"
#include "mpi_bridge.h"

namespace mpi_bridge {

// Why something could not be done: the status that the caller of the C API sees, and one line of
// text that says what failed, on which rank and in which step. The text ends without full stop or
// newline.
struct Failure {
    mpib_status status = MPIB_ERROR_INTERNAL;
    std::string text;
    // The rank that was lost, or the rank that reported this failure; -1: it is this rank's own.
    int of_rank = -1;
};

template <typename T>
using Outcome = tl::expected<T, Failure>;
using Done = Outcome<void>;

[[nodiscard]] inline tl::unexpected<Failure> fail(mpib_status status, std::string text) {
    return tl::unexpected<Failure>(Failure{status, std::move(text)});
}

[[nodiscard]] inline tl::unexpected<Failure> invalid(std::string text) {
    return fail(MPIB_ERROR_INVALID_ARGUMENT, std::move(text));
}

// The loss of a rank.
[[nodiscard]] inline tl::unexpected<Failure> lost(int rank, std::string text) {
    return tl::unexpected<Failure>(
        Failure{.status = MPIB_ERROR_PEER_LOST, .text = std::move(text), .of_rank = rank});
}

// Passes the failure of one type of outcome on as another type.
template <typename T>
[[nodiscard]] tl::unexpected<Failure> pass_on(Outcome<T>&& outcome) {
    return tl::unexpected<Failure>(std::move(outcome).error());
}

}  // namespace mpi_bridge
