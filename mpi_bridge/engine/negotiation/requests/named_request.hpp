// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "engine/negotiation/requests/descriptor.hpp"

namespace mpi_bridge {

// "I have submitted this name, and this is what it means": what a rank announces about a name whose
// meaning the members do not all know yet.
struct NamedRequest {
    std::string name;
    Descriptor descriptor;

    bool operator==(const NamedRequest&) const = default;
};

// Converts requests to bytes and back, for ranks of the same architecture. Equal requests give
// equal bytes. Bytes from any other source are MPIB_ERROR_INTERNAL.
[[nodiscard]] std::vector<std::byte> encode(std::span<const NamedRequest> requests);
[[nodiscard]] Outcome<std::vector<NamedRequest>> decode(std::span<const std::byte> bytes);

// The 64-bit FNV-1a digest.
[[nodiscard]] std::uint64_t digest_of(std::span<const std::byte> bytes);

}  // namespace mpi_bridge
