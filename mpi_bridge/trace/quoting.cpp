// SPDX-License-Identifier: Apache-2.0
#include "trace/quoting.hpp"

#include <iterator>

#include <fmt/format.h>

#include "core/utf8.hpp"

namespace mpi_bridge {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
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
        if (!character || is_unprintable(character->code)) {
            out += '?';
        } else {
            out += text.substr(0, bytes);
        }
        text.remove_prefix(bytes);
    }
    return out;
}

}  // namespace

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
