// SPDX-License-Identifier: Apache-2.0
#include "core/utf8.hpp"

namespace mpi_bridge {
namespace {

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

bool is_unprintable(char32_t code) {
    if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) return true;
    if (code == 0xAD || code == 0x61C || code == 0xFEFF) return true;
    if (code >= 0x200B && code <= 0x200F) return true;
    return (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F);
}

}  // namespace mpi_bridge
