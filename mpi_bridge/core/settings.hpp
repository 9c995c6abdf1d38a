// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// What the environment says; read once, in mpib_init().
struct Settings {
    Seconds timeout{300};                       // MPI_BRIDGE_TIMEOUT_SECONDS
    std::size_t segment_bytes = 1024UL * 1024;  // MPI_BRIDGE_SEGMENT_BYTES
    std::string network = "auto";               // MPI_BRIDGE_NETWORK; auto, ucx or tcp
    std::string allreduce;                      // MPI_BRIDGE_ALLREDUCE; "" means by the model
    std::string model;                          // MPI_BRIDGE_MODEL; "" means measured
    std::string kernels;                        // MPI_BRIDGE_KERNELS; "" means the fastest
};

// A positive, finite number of seconds, at most a hundred years.
[[nodiscard]] std::optional<Seconds> parse_seconds(std::string_view text);

// A whole number of bytes with an optional K, M or G (powers of 1024).
[[nodiscard]] std::optional<std::size_t> parse_bytes(std::string_view text);

// Reads the variables named above; an unusable value is MPIB_ERROR_INVALID_ARGUMENT and the text
// names the variable, its value and the form expected.
[[nodiscard]] Outcome<Settings> settings_from_environment();

}  // namespace mpi_bridge
