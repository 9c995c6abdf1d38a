// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/digest.hpp"

#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

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

}  // namespace batchai::base
