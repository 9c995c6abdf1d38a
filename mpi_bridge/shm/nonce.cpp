// SPDX-License-Identifier: Apache-2.0
#include "shm/nonce.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <sys/random.h>

namespace mpi_bridge {

Outcome<Nonce> draw_nonce() {
    Nonce nonce{};
    // So few bytes come in one piece once the kernel's generator is seeded.
    ssize_t got = 0;
    do {
        got = ::getrandom(nonce.data(), nonce.size(), 0);
    } while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(nonce.size())) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: cannot draw a random number for a name: {}",
                                std::strerror(errno)));
    }
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
