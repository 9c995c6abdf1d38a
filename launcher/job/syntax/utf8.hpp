// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// UTF-8 as job files need it: strict reading, and text that is safe to show on a terminal.
namespace batchai::job {

// Bytes of the valid UTF-8 sequence at `offset` (1 to 4); 0 when there is none: a stray or missing
// continuation byte, an overlong form, a surrogate, a code point above U+10FFFF.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text, std::size_t offset);

// The code point of a sequence that utf8_sequence() found valid.
[[nodiscard]] char32_t utf8_decode(std::string_view sequence);

void utf8_append(std::string& out, char32_t code_point);

// A character that could move the cursor, reorder the line or hide itself: C0 and C1 controls,
// bidirectional controls, zero-width characters, line separators. A tab is one too.
[[nodiscard]] bool is_unprintable(char32_t code_point);

// The text with each unprintable character and each broken byte replaced by U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

// For messages: in double quotes, printable, and cut to 60 characters.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace batchai::job
