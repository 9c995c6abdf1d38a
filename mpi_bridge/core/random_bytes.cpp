// SPDX-License-Identifier: Apache-2.0
#include "core/random_bytes.hpp"

#include <cerrno>
#include <system_error>

#include <sys/random.h>

namespace mpi_bridge {

Done fill_random(std::span<std::byte> bytes) {
    // getrandom() returns so few bytes in one piece once the kernel's generator is seeded.
    ssize_t got = 0;
    do {
        got = ::getrandom(bytes.data(), bytes.size(), 0);
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(bytes.size())) return {};
    return fail(MPIB_ERROR_INTERNAL,
                "cannot draw random numbers: " + std::system_category().message(errno));
}

}  // namespace mpi_bridge
