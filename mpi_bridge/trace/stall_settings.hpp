// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bootstrap/launch.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// When to speak of operations that some ranks have not submitted; zero means never.
struct StallSettings {
    Seconds report{60};  // MPI_BRIDGE_STALL_SECONDS
    // MPI_BRIDGE_STALL_SHUTDOWN_SECONDS. Long enough for a rank that validates or writes a
    // checkpoint while the others wait for it.
    Seconds shut_down{1800};
};

// Reads the variables named above. Where they are not set, HOROVOD_STALL_CHECK_TIME_SECONDS,
// HOROVOD_STALL_SHUTDOWN_TIME_SECONDS and HOROVOD_STALL_CHECK_DISABLE (1: neither) count. An
// unusable value is MPIB_ERROR_INVALID_ARGUMENT; the text names variable, value and expected form.
[[nodiscard]] Outcome<StallSettings> stall_settings(const Environment& environment);

}  // namespace mpi_bridge
