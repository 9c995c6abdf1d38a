// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace mpi_bridge {

// Looks up environment variables: those of this process or, in tests, others.
using Environment = std::function<std::optional<std::string>(const char* name)>;

[[nodiscard]] inline std::optional<std::string> process_environment(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

}  // namespace mpi_bridge
