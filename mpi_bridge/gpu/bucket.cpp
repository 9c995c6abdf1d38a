// SPDX-License-Identifier: Apache-2.0
#include "gpu/bucket.hpp"

#include <cstdint>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/parts.hpp"

namespace mpi_bridge {
namespace {

// Leaves room for the widest wire element and for the gaps.
constexpr std::size_t most_elements = std::numeric_limits<std::size_t>::max() / 64;

Done check_address(const void* address, std::size_t element_bytes, std::size_t part,
                   const char* which) {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    if (value != 0 && value % element_bytes == 0) return {};
    return invalid(fmt::format(
        "{} of part {} is {}", which, part,
        value == 0 ? std::string("NULL")
                   : fmt::format("not aligned to its elements of {} bytes", element_bytes)));
}

}  // namespace

BucketLayout lay_out(std::span<const DevicePart> parts) {
    BucketLayout layout;
    layout.places.reserve(parts.size());
    for (const DevicePart& part : parts) {
        const std::size_t place = round_up(layout.elements, kernels::place_multiple);
        layout.places.push_back(place);
        if (part.count != 0) layout.elements = place + part.count;
    }
    return layout;
}

std::vector<kernels::Arguments> launches_for(std::span<const DevicePart> parts,
                                             const BucketLayout& layout, Way way,
                                             const kernels::Arguments& arguments) {
    std::vector<kernels::Arguments> launches;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const DevicePart& part = parts[i];
        if (part.count == 0) continue;
        if (launches.empty() || launches.back().pieces == kernels::most_pieces) {
            launches.push_back(arguments);
            launches.back().first = layout.places[i];
            launches.back().pieces = 0;
        }
        kernels::Arguments& launch = launches.back();
        const void* tensor = way == Way::pack ? part.send : part.recv;
        launch.piece[launch.pieces++] = {reinterpret_cast<std::uintptr_t>(tensor), layout.places[i],
                                         part.count};
        launch.elements = layout.places[i] + part.count - launch.first;
    }
    return launches;
}

Done check_parts(std::span<const DevicePart> parts, std::size_t element_bytes) {
    std::size_t room = most_elements;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const DevicePart& part = parts[i];
        if (part.count == 0) continue;
        TRY(check_address(part.send, element_bytes, i, "send"));
        TRY(check_address(part.recv, element_bytes, i, "recv"));
        if (part.count > room || room - part.count < kernels::place_multiple) {
            return invalid(fmt::format("the counts up to part {} are too large", i));
        }
        room -= part.count + kernels::place_multiple;
    }
    return {};
}

Done check_lengths(std::span<const std::size_t> lengths, int ranks) {
    if (lengths.size() == static_cast<std::size_t>(ranks)) return {};
    return invalid(fmt::format("{} lengths were given for {} ranks", lengths.size(), ranks));
}

std::size_t sum_of(std::span<const std::size_t> lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

}  // namespace mpi_bridge
