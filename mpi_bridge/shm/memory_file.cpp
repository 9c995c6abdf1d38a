// SPDX-License-Identifier: Apache-2.0
#include "shm/memory_file.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mpi_bridge {
namespace {

std::string label(std::string_view kind, const Nonce& nonce) {
    return fmt::format("mpi_bridge.{}.{}", kind, to_hex(nonce));
}

}  // namespace

Outcome<FileDescriptor> make_memory_file(std::string_view kind, const Nonce& nonce) {
    FileDescriptor file(
        ::memfd_create(label(kind, nonce).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) {
        return fail(MPIB_ERROR_INTERNAL, fmt::format("shared {}: cannot create a memory file: {}",
                                                     kind, std::strerror(errno)));
    }
    return file;
}

Outcome<FileDescriptor> open_memory_file(std::string_view kind, const Nonce& nonce,
                                         const MemoryFilePlace& place) {
    const auto path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
    const auto expected = fmt::format("/memfd:{} (deleted)", label(kind, nonce));
    const auto refuse = [&](std::string_view why) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared {0}: cannot map the {0} of process {1}: {2}", kind,
                                place.process, why));
    };
    // The link is checked before the file is opened, because opening some other file could have
    // side effects.
    char target[128];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return refuse(std::strerror(errno));
    if (std::string_view(target, static_cast<std::size_t>(length)) != expected) {
        return refuse("its process number means another process here");
    }
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) return refuse(std::strerror(errno));
    return file;
}

}  // namespace mpi_bridge
