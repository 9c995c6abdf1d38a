// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Texts that may hold any bytes, for files and for people.
namespace mpi_bridge {

// Appends the text as a JSON string with its quotes. The text may hold any bytes: each byte that is
// not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// The text between double quotes, for a message to people. Unprintable characters (core/utf8.hpp)
// become "?", and so do bytes that are not UTF-8. A text
// that is longer than `longest` bytes is cut in the middle, where tensor names say least.
[[nodiscard]] std::string quoted_for_people(std::string_view text, std::size_t longest = 80);

}  // namespace mpi_bridge
