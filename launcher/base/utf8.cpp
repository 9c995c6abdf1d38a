// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/utf8.hpp"

#include <algorithm>
#include <cstdint>

#include "mpi_bridge/core/utf8.hpp"

namespace batchai::base {

namespace {

constexpr char32_t replacement = 0xFFFD;

}  // namespace

std::size_t utf8_sequence(std::string_view text, std::size_t offset) {
    const auto character = mpi_bridge::first_character(text.substr(offset));
    return character ? character->bytes : 0;
}

bool is_utf8(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t length = utf8_sequence(text, at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

char32_t utf8_decode(std::string_view sequence) {
    return mpi_bridge::first_character(sequence).value_or(mpi_bridge::Character{}).code;
}

void utf8_append(std::string& out, char32_t code_point) {
    const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
    const std::uint32_t c = code_point;
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0U | (c >> 6U));
        put(0x80U | (c & 0x3FU));
    } else if (c < 0x10000) {
        put(0xE0U | (c >> 12U));
        put(0x80U | ((c >> 6U) & 0x3FU));
        put(0x80U | (c & 0x3FU));
    } else {
        put(0xF0U | (c >> 18U));
        put(0x80U | ((c >> 12U) & 0x3FU));
        put(0x80U | ((c >> 6U) & 0x3FU));
        put(0x80U | (c & 0x3FU));
    }
}

std::string printable(std::string_view text) {
    std::string out;
    for (std::size_t offset = 0; offset < text.size();) {
        const std::size_t length = utf8_sequence(text, offset);
        const std::string_view sequence = text.substr(offset, length);
        if (length == 0 || is_unprintable(utf8_decode(sequence))) {
            utf8_append(out, replacement);
        } else {
            out += sequence;
        }
        offset += length == 0 ? 1 : length;
    }
    return out;
}

std::string printable_lines(std::string_view text) {
    std::string out;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
        out += printable(text.substr(begin, end - begin));
        if (end < text.size()) out += text[end];
        begin = end + 1;
    }
    return out;
}

std::string printable_line(std::string_view text) {
    std::string line(text);
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
    return printable(line);
}

}  // namespace batchai::base
