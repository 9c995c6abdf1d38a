// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// How long the host of a peer may be silent (transport/tcp/host_silence.hpp), unless the user says.
inline constexpr Seconds default_host_timeout{60};

// Settings from the environment, read once, in mpib_init().
struct Settings {
    // MPI_BRIDGE_TIMEOUT_SECONDS sets both of these: how long mpib_init() and the search for a
    // peer's address may take, and how long a collective may wait for a peer. A rank that evaluates
    // or writes a checkpoint has good reason to keep the others waiting, so by default the second
    // is unlimited.
    Seconds start_timeout{300};
    Seconds timeout = no_limit;
    Seconds host_timeout = default_host_timeout;  // MPI_BRIDGE_HOST_TIMEOUT_SECONDS
    std::size_t segment_bytes = 1024UL * 1024;    // MPI_BRIDGE_SEGMENT_BYTES
    std::string network = "auto";                 // MPI_BRIDGE_NETWORK; auto, ucx or tcp
    std::string allreduce;                        // MPI_BRIDGE_ALLREDUCE; "" means by the model
    std::string model;                            // MPI_BRIDGE_MODEL; "" means measured
    std::string kernels;                          // MPI_BRIDGE_KERNELS; "" means the fastest
};

// Accepts a positive, finite number of seconds, at most a hundred years.
[[nodiscard]] std::optional<Seconds> parse_seconds(std::string_view text);

// Accepts a whole number of bytes with an optional K, M or G (powers of 1024).
[[nodiscard]] std::optional<std::size_t> parse_bytes(std::string_view text);

// Reads the variables named above from the environment of this process. An unusable value is
// MPIB_ERROR_INVALID_ARGUMENT; the text names the variable, its value and the form expected.
[[nodiscard]] Outcome<Settings> settings_from_environment();

}  // namespace mpi_bridge
