// SPDX-License-Identifier: Apache-2.0
#include "core/descriptor_limit.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/resource.h>

namespace mpi_bridge {
namespace {

// Of the program, and of the library beside the connections.
constexpr rlim_t beside_connections = 256;
// A connection for messages, and one that says that the rank lives.
constexpr rlim_t connections_each = 2;

}  // namespace

void raise_descriptor_limit(int ranks) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = connections_each * static_cast<rlim_t>(ranks) + beside_connections;
    if (limit.rlim_cur >= std::min(wanted, limit.rlim_max)) return;
    limit.rlim_cur = std::min(wanted, limit.rlim_max);
    // If that fails, the error that comes of it names the limit.
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

std::string about_descriptor_limit(int error) {
    rlimit limit{};
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
    return " (this process may have " + std::to_string(limit.rlim_cur) +
           " open files; raise the hard limit: ulimit -Hn, or LimitNOFILE of slurmd)";
}

}  // namespace mpi_bridge
