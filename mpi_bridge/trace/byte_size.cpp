// SPDX-License-Identifier: Apache-2.0
#include "trace/byte_size.hpp"

#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/core.h>

namespace mpi_bridge {

std::string byte_size_text(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 6> units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return fmt::format("{} bytes", bytes);
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace mpi_bridge
