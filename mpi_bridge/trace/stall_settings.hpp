// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/deadline.hpp"
#include "core/environment.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// When to report operations that some ranks have not submitted; zero means never.
struct StallSettings {
    Seconds report{60};  // MPI_BRIDGE_STALL_SECONDS
    // MPI_BRIDGE_STALL_SHUTDOWN_SECONDS. Never by default, as in Horovod, because a rank that
    // validates or writes a checkpoint keeps the others waiting for as long as it needs.
    Seconds shut_down{0};
};

// Reads the variables named above. Where they are not set, HOROVOD_STALL_CHECK_TIME_SECONDS,
// HOROVOD_STALL_SHUTDOWN_TIME_SECONDS and HOROVOD_STALL_CHECK_DISABLE (any value but 0 disables
// both) are used. An unusable value is MPIB_ERROR_INVALID_ARGUMENT; the text names the variable,
// its value and the expected form.
[[nodiscard]] Outcome<StallSettings> stall_settings(const Environment& environment);

}  // namespace mpi_bridge
