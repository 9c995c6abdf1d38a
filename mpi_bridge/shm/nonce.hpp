// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "core/failure.hpp"

namespace mpi_bridge {

// A number that nobody has drawn before: proof that an object found under a name is the one meant.
using Nonce = std::array<unsigned char, 16>;

[[nodiscard]] Outcome<Nonce> draw_nonce();

// 32 hexadecimal digits.
[[nodiscard]] std::string to_hex(const Nonce& nonce);

}  // namespace mpi_bridge
