// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// UTF-8 for job files: strict decoding, and text that is safe to show on a terminal.
namespace batchai::job {

// Returns the length in bytes (1 to 4) of the valid UTF-8 sequence at `offset`; 0 if there is none
// because of a stray or missing continuation byte, an overlong form, a surrogate, or a code point
// above U+10FFFF.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text, std::size_t offset);

// Returns whether the whole text is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

// Returns the code point of a sequence that utf8_sequence() found valid.
[[nodiscard]] char32_t utf8_decode(std::string_view sequence);

void utf8_append(std::string& out, char32_t code_point);

// Returns whether the character could move the cursor, reorder the line or hide itself: C0 and C1
// controls including the tab, bidirectional controls, zero-width characters, and line separators.
[[nodiscard]] bool is_unprintable(char32_t code_point);

// Returns the text with each unprintable character and each invalid byte replaced by U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

// Returns whether a text that should be a name looks like a token, a key or a password that
// somebody has written there instead.
[[nodiscard]] bool looks_like_secret(std::string_view text);

// Does what quote() does, unless the text looks like a secret.
[[nodiscard]] std::string quote_name(std::string_view text);

// Returns the text for a message: in double quotes, printable, and cut to 60 characters.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace batchai::job
