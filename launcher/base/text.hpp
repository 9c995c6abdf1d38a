// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace batchai::base {

// Bytes in a mebibyte and in a gibibyte, for texts.
inline constexpr double mebi = 1024.0 * 1024.0;
inline constexpr double gibi = 1024.0 * mebi;

// Returns a size for people: "512 B", "1.5 GiB".
[[nodiscard]] std::string size_text(std::int64_t bytes);

// Returns the Damerau-Levenshtein distance (optimal string alignment) in bytes, case-sensitively.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate nearest to `word`, ignoring case, if it is near enough to be a likely typo:
// the distance is at most a third of the longer length, or at most 1 for short words, and never
// more than 3.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);

// Splits at every `separator` and keeps empty fields; "" gives one empty field.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// Returns the text without leading and trailing blanks, tabs, carriage returns and newlines.
[[nodiscard]] std::string_view trim(std::string_view text);

// Reads the whole text as a number. Returns nothing if it is anything else, or if it does not fit.
template <typename Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text, int radix = 10) {
    Number number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number, radix);
    if (error != std::errc() || stop != end) return std::nullopt;
    return number;
}

// Returns numbers as ranges with the separator between them: "0-2,5". They must be sorted, each
// once.
[[nodiscard]] std::string number_ranges(const std::vector<int>& numbers,
                                        std::string_view separator = ",");

[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] std::string upper(std::string_view text);

// Of ASCII, whatever the locale.
[[nodiscard]] constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns whether this is a control character of ASCII.
[[nodiscard]] constexpr bool is_control(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
}

// Returns one word for a POSIX shell: unchanged if it has only safe characters, else in single
// quotes.
[[nodiscard]] std::string shell_quote(std::string_view word);

// Returns one word for a shell, in single quotes even if it does not need them, so that a reader
// sees where a path begins and ends.
[[nodiscard]] std::string single_quoted(std::string_view word);

}  // namespace batchai::base
