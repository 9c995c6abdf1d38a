// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/syntax/utf8.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::job {

std::string quote(std::string_view text) {
    constexpr std::size_t most_characters = 60;
    std::size_t characters = 0;
    std::size_t offset = 0;
    while (offset < text.size() && characters < most_characters) {
        const std::size_t length = utf8_sequence(text, offset);
        offset += length == 0 ? 1 : length;
        ++characters;
    }
    const std::string_view rest = text.substr(offset);
    return '"' + printable(text.substr(0, offset)) + (rest.empty() ? "\"" : "...\"");
}

bool looks_like_secret(std::string_view text) {
    constexpr std::size_t longest_plain = 15;  // names up to here are shown
    const auto has = [&](auto is) { return std::any_of(text.begin(), text.end(), is); };
    const bool lower = has([](char c) { return c >= 'a' && c <= 'z'; });
    const bool upper = has([](char c) { return c >= 'A' && c <= 'Z'; });
    const bool digit = has(base::is_digit);
    const bool other = has([](char c) {
        return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_';
    });
    const bool parted = text.find('_') != std::string_view::npos;
    // Names of variables are words in one case with "_" between them.
    return text.size() > longest_plain &&
           (other || (digit && (lower || !parted)) || (lower && upper) || (!parted && digit));
}

std::string quote_name(std::string_view text) {
    if (!looks_like_secret(text)) return quote(text);
    return fmt::format("a text of {} bytes that looks like a secret", text.size());
}

}  // namespace batchai::job
