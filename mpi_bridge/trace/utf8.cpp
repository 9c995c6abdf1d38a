// SPDX-License-Identifier: Apache-2.0
#include "trace/utf8.hpp"

#include <iterator>

#include <fmt/format.h>

namespace mpi_bridge {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

// The length of the encoding that begins with this byte; 0 when there is none.
std::size_t encoded_bytes(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead < 0xE0) return 2;
    if (lead >= 0xE0 && lead < 0xF0) return 3;
    if (lead >= 0xF0 && lead < 0xF5) return 4;
    return 0;
}

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

bool disturbs(char32_t code) {
    const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    const bool line_end = code == 0x2028 || code == 0x2029;
    const bool direction = code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                           (code >= 0x2066 && code <= 0x2069);
    return control || line_end || direction;
}

// At most `longest` bytes from the front, cut between characters.
std::string_view front(std::string_view text, std::size_t longest) {
    std::size_t bytes = longest;
    while (bytes > 0 && continues(text[bytes]))
        --bytes;
    return text.substr(0, bytes);
}

std::string_view back(std::string_view text, std::size_t longest) {
    std::size_t from = text.size() - longest;
    while (from < text.size() && continues(text[from]))
        ++from;
    return text.substr(from);
}

std::string harmless(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const auto character = first_character(text);
        const std::size_t bytes = character ? character->bytes : 1;
        if (!character || disturbs(character->code)) {
            out += '?';
        } else {
            out += text.substr(0, bytes);
        }
        text.remove_prefix(bytes);
    }
    return out;
}

}  // namespace

std::optional<Character> first_character(std::string_view text) {
    if (text.empty()) return std::nullopt;
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t bytes = encoded_bytes(lead);
    if (bytes == 1) return Character{lead, 1};
    if (bytes == 0 || text.size() < bytes) return std::nullopt;
    char32_t code = lead & (0xFFU >> (bytes + 1));
    for (const char byte : text.substr(1, bytes - 1)) {
        if (!continues(byte)) return std::nullopt;
        code = code << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
    }
    const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    if (overlong || surrogate || code > 0x10FFFF) return std::nullopt;
    return Character{code, bytes};
}

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const auto character = first_character(text);
        const std::size_t bytes = character ? character->bytes : 1;
        if (!character) {
            out += replacement;
        } else if (character->code == '"' || character->code == '\\') {
            out += '\\';
            out += text.front();
        } else if (character->code < 0x20 || character->code == 0x7F) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}",
                           static_cast<unsigned>(character->code));
        } else {
            out += text.substr(0, bytes);
        }
        text.remove_prefix(bytes);
    }
    out += '"';
}

std::string quoted_for_people(std::string_view text, std::size_t longest) {
    constexpr std::string_view gap = "...";
    if (text.size() <= longest || longest <= gap.size()) return '"' + harmless(text) + '"';
    const std::size_t kept = longest - gap.size();
    const std::size_t head = kept / 2;
    return '"' + harmless(front(text, head)) + std::string(gap) +
           harmless(back(text, kept - head)) + '"';
}

}  // namespace mpi_bridge
