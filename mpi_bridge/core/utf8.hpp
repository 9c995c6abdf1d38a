// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace mpi_bridge {

struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;  // of its encoding
};

// The first character of a text in UTF-8 as RFC 3629 defines it (no surrogates, no overlong forms);
// nullopt when the text is empty or does not begin with one.
[[nodiscard]] std::optional<Character> first_character(std::string_view text);

// Returns whether the character could move the cursor, reorder the line or hide itself: C0 and C1
// controls including the tab, bidirectional controls, zero-width characters, and line separators.
[[nodiscard]] bool is_unprintable(char32_t code);

}  // namespace mpi_bridge
