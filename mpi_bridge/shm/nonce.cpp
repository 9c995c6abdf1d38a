// SPDX-License-Identifier: Apache-2.0
#include "shm/nonce.hpp"

#include <iterator>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "core/random_bytes.hpp"

namespace mpi_bridge {

Outcome<Nonce> draw_nonce() {
    Nonce nonce{};
    TRY(fill_random(std::as_writable_bytes(std::span(nonce))));
    return nonce;
}

std::string to_hex(const Nonce& nonce) {
    std::string text;
    text.reserve(2 * nonce.size());
    for (const unsigned char byte : nonce)
        fmt::format_to(std::back_inserter(text), "{:02x}", byte);
    return text;
}

}  // namespace mpi_bridge
