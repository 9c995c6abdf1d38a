// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mpi_bridge {

struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;  // of its encoding
};

// The first character of a text in UTF-8 as RFC 3629 defines it (no surrogates, no overlong forms);
// nullopt when the text is empty or does not begin with one.
[[nodiscard]] std::optional<Character> first_character(std::string_view text);

// Appends the text as a JSON string with its quotes. The text may hold any bytes: each byte that is
// not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// The text between double quotes, for a message to people. Characters that could move a cursor, end
// a line or change the writing direction become "?", and so do bytes that are not UTF-8. A text
// that is longer than `longest` bytes is cut in the middle, where tensor names say least.
[[nodiscard]] std::string quoted_for_people(std::string_view text, std::size_t longest = 80);

}  // namespace mpi_bridge
