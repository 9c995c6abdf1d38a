// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace batchai::base {

namespace {

constexpr char32_t replacement = 0xFFFD;

unsigned char byte_at(std::string_view text, std::size_t offset) {
    return static_cast<unsigned char>(text[offset]);
}

// Returns the sequence length that the lead byte announces; 0 if it cannot be a lead byte.
std::size_t promised_length(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 0;
}

}  // namespace

std::size_t utf8_sequence(std::string_view text, std::size_t offset) {
    const unsigned char lead = byte_at(text, offset);
    const std::size_t length = promised_length(lead);
    if (length <= 1) return length;
    if (text.size() - offset < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte_at(text, offset + i) & 0xC0U) != 0x80U) return 0;
    }
    const unsigned char second = byte_at(text, offset + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate = lead == 0xED && second >= 0xA0;
    const bool too_high = lead == 0xF4 && second >= 0x90;
    return overlong || surrogate || too_high ? 0 : length;
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
    const std::uint32_t lead = byte_at(sequence, 0);
    if (sequence.size() == 1) return lead;
    std::uint32_t code_point = lead & (0x7FU >> sequence.size());
    for (std::size_t i = 1; i < sequence.size(); ++i) {
        code_point = (code_point << 6U) | (byte_at(sequence, i) & 0x3FU);
    }
    return code_point;
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

bool is_unprintable(char32_t c) {
    if (c < 0x20 || (c >= 0x7F && c <= 0x9F)) return true;
    if (c == 0xAD || c == 0x61C || c == 0xFEFF) return true;
    if (c >= 0x200B && c <= 0x200F) return true;
    return (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F);
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
