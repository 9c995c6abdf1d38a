// SPDX-License-Identifier: Apache-2.0
#include "core/settings.hpp"

#include <charconv>
#include <limits>

#include "core/environment.hpp"

namespace mpi_bridge {
namespace {

constexpr double longest_timeout = 100.0 * 365 * 24 * 3600;
constexpr std::size_t shortest_segment = 64;
constexpr std::size_t longest_segment = std::size_t{1} << 30;

std::string variable(const char* name) {
    return process_environment(name).value_or("");
}

tl::unexpected<Failure> unusable(std::string_view name, std::string_view value,
                                 std::string_view expected) {
    return fail(MPIB_ERROR_INVALID_ARGUMENT, std::string(name) + "=\"" + std::string(value) +
                                                 "\" is not " + std::string(expected));
}

}  // namespace

std::optional<Seconds> parse_seconds(std::string_view text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, value);
    if (fault != std::errc() || rest != end) return std::nullopt;
    if (!(value > 0) || value > longest_timeout) return std::nullopt;
    return Seconds(value);
}

std::optional<std::size_t> parse_bytes(std::string_view text) {
    std::size_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, value);
    if (fault != std::errc()) return std::nullopt;
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    unsigned shift = 0;
    if (unit == "K") {
        shift = 10;
    } else if (unit == "M") {
        shift = 20;
    } else if (unit == "G") {
        shift = 30;
    } else if (!unit.empty()) {
        return std::nullopt;
    }
    if (value > (std::numeric_limits<std::size_t>::max() >> shift)) return std::nullopt;
    return value << shift;
}

Outcome<Settings> settings_from_environment() {
    Settings settings;
    if (const auto text = variable("MPI_BRIDGE_TIMEOUT_SECONDS"); !text.empty()) {
        const auto seconds = parse_seconds(text);
        if (!seconds) {
            return unusable("MPI_BRIDGE_TIMEOUT_SECONDS", text, "a positive number of seconds");
        }
        settings.start_timeout = settings.timeout = *seconds;
    }
    if (const auto text = variable("MPI_BRIDGE_HOST_TIMEOUT_SECONDS"); !text.empty()) {
        const auto seconds = parse_seconds(text);
        if (!seconds || *seconds < Seconds(1)) {
            return unusable("MPI_BRIDGE_HOST_TIMEOUT_SECONDS", text, "a number of seconds from 1");
        }
        settings.host_timeout = *seconds;
    }
    if (const auto text = variable("MPI_BRIDGE_SEGMENT_BYTES"); !text.empty()) {
        const auto bytes = parse_bytes(text);
        if (!bytes || *bytes < shortest_segment || *bytes > longest_segment) {
            return unusable("MPI_BRIDGE_SEGMENT_BYTES", text,
                            "a number of bytes from 64 to 1G, such as 1M");
        }
        settings.segment_bytes = *bytes;
    }
    if (const auto text = variable("MPI_BRIDGE_NETWORK"); !text.empty()) {
        if (text != "auto" && text != "ucx" && text != "tcp") {
            return unusable("MPI_BRIDGE_NETWORK", text, "auto, ucx or tcp");
        }
        settings.network = text;
    }
    settings.allreduce = variable("MPI_BRIDGE_ALLREDUCE");
    settings.model = variable("MPI_BRIDGE_MODEL");
    settings.kernels = variable("MPI_BRIDGE_KERNELS");
    return settings;
}

}  // namespace mpi_bridge
