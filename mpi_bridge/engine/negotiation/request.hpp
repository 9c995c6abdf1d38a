// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "engine/negotiation/descriptor.hpp"

namespace mpi_bridge {

// "I have submitted this, and it means that": what a rank tells the others of a name that they do
// not all know to mean that.
struct NamedRequest {
    std::string name;
    Descriptor descriptor;

    bool operator==(const NamedRequest&) const = default;
};

// To bytes and back, for ranks of equal architecture. Equal requests give equal bytes. Bytes
// of any other origin give MPIB_ERROR_INTERNAL.
[[nodiscard]] std::vector<std::byte> encode(std::span<const NamedRequest> requests);
[[nodiscard]] Outcome<std::vector<NamedRequest>> decode(std::span<const std::byte> bytes);

// FNV-1a of 64 bits.
[[nodiscard]] std::uint64_t digest_of(std::span<const std::byte> bytes);

}  // namespace mpi_bridge
