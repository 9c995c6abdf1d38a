// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "core/failure.hpp"

namespace mpi_bridge {

// A random number that is never drawn twice. It proves that an object found under a name is the
// right one.
using Nonce = std::array<unsigned char, 16>;

[[nodiscard]] Outcome<Nonce> draw_nonce();

// 32 hexadecimal digits.
[[nodiscard]] std::string to_hex(const Nonce& nonce);

}  // namespace mpi_bridge
