// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/ids.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/random.h>

namespace batchai::base {

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1)
        return {};
    std::string out;
    for (unsigned int i = 0; i < length; ++i)
        out += fmt::format("{:02x}", digest[i]);
    return out;
}

std::string random_uuid() {
    std::array<std::uint8_t, 16> bytes{};
    // A request for up to 256 bytes is never cut short (getrandom(2)). Without randomness nothing
    // is safe.
    if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) abort();
    bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x40U);
    bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += fmt::format("{:02x}", bytes[i]);
    }
    return out;
}

}  // namespace batchai::base
