// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mpi_bridge/core/utf8.hpp"

// UTF-8 (mpi_bridge/core/utf8.hpp decodes it), and text that is safe to show on a terminal.
namespace batchai::base {

// Returns the length in bytes (1 to 4) of the valid UTF-8 sequence at `offset`; 0 if there is none
// because of a stray or missing continuation byte, an overlong form, a surrogate, or a code point
// above U+10FFFF.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text, std::size_t offset);

// Returns whether the whole text is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

// Returns the code point of a sequence that utf8_sequence() found valid.
[[nodiscard]] char32_t utf8_decode(std::string_view sequence);

void utf8_append(std::string& out, char32_t code_point);

using mpi_bridge::is_unprintable;

// Each of these returns the text with every unprintable character and every invalid byte replaced
// by U+FFFD. What nodes, images, other users' files and other programs say goes through one of them
// before it reaches a terminal. printable_lines() leaves newlines and tabs as they are, and
// printable_line() makes blanks of them.
[[nodiscard]] std::string printable(std::string_view text);
[[nodiscard]] std::string printable_lines(std::string_view text);
[[nodiscard]] std::string printable_line(std::string_view text);

}  // namespace batchai::base
