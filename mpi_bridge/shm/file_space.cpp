// SPDX-License-Identifier: Apache-2.0
#include "shm/file_space.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

namespace mpi_bridge {
namespace {

// A signal undoes an unfinished step and makes it start over, so steps are short enough to finish
// between the ticks of a profiler.
constexpr std::uint64_t step = 16UL << 20;

}  // namespace

std::uint64_t longest_file() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return std::numeric_limits<std::int64_t>::max();
    }
    return limit.rlim_cur;
}

Done reserve_space(int file, std::uint64_t offset, std::uint64_t bytes, std::string_view purpose,
                   std::string_view remedy) {
    const std::uint64_t limit = longest_file();
    if (bytes > limit || offset > limit - bytes) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: {} bytes for {} are more than this process may "
                                "write into a file (ulimit -f: {} bytes)",
                                offset + bytes, purpose, limit));
    }
    for (std::uint64_t done = 0; done < bytes;) {
        const std::uint64_t part = std::min(step, bytes - done);
        if (::fallocate(file, 0, static_cast<off_t>(offset + done), static_cast<off_t>(part)) ==
            0) {
            done += part;
        } else if (errno != EINTR) {
            const bool full = errno == ENOSPC || errno == ENOMEM;
            return fail(MPIB_ERROR_INTERNAL,
                        fmt::format("shared memory: no {} bytes for {}: {}{}{}", bytes, purpose,
                                    std::strerror(errno), full ? "; " : "", full ? remedy : ""));
        }
    }
    return {};
}

}  // namespace mpi_bridge
