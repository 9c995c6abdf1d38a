// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "core/failure.hpp"
#include "core/file_descriptor.hpp"
#include "shm/nonce.hpp"

// Files of memory without a name (memfd). Nothing of them can be left behind, and they do not count
// against the size of /dev/shm, which is often small in containers. Other processes open them
// through /proc/PID/fd, which the kernel allows to processes of the same user that could debug the
// file's maker. The nonce in the file's label proves that they got the right file.
namespace mpi_bridge {

// Where such a file is found. Trivially copyable, so it can be sent as it is.
struct MemoryFilePlace {
    std::int64_t process;  // 0: there is no file
    std::int64_t file;     // its descriptor there
};

// `kind` is a word for the file's label, such as "heap".
[[nodiscard]] Outcome<FileDescriptor> make_memory_file(std::string_view kind, const Nonce& nonce);

// Fails with MPIB_ERROR_INTERNAL where the process's files cannot be opened: they belong to another
// user, or the process is in another PID namespace.
[[nodiscard]] Outcome<FileDescriptor> open_memory_file(std::string_view kind, const Nonce& nonce,
                                                       const MemoryFilePlace& place);

}  // namespace mpi_bridge
