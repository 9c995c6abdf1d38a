// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::base {

// Returns the SHA-256 of the bytes as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

// Returns a random (version 4) UUID in lower case, from the kernel's generator.
[[nodiscard]] std::string random_uuid();

}  // namespace batchai::base
