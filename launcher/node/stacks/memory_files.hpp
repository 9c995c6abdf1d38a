// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/file.hpp"

namespace batchai::node {

// What a process has open that has no path but /proc/PID/fd/NUMBER.
struct MemoryFile {
    int number = -1;  // of the descriptor in that process
    base::FileDescriptor file;
};

// Opens the files in memory of this name, which memfd_create(2) has given them, with the flags of
// open(2). There are none if this user may not look into the process.
[[nodiscard]] std::vector<MemoryFile> memory_files(pid_t process, std::string_view name, int flags);

// Does the same with what the process has open of a pipe, by the number of its inode.
[[nodiscard]] std::vector<MemoryFile> ends_of_pipe(pid_t process, std::uint64_t inode, int flags);

// The first line of a file that mpi_bridge/python/mpi_bridge/hook has made: "NAME 1 PID NUMBER
// NUMBER". What the numbers are is said there.
struct HookHead {
    std::array<std::uint64_t, 2> numbers{};
    std::size_t bytes = 0;  // of the line
};

// Returns the line if the process itself has written it. A child that has been forked has the files
// of its parent.
[[nodiscard]] std::optional<HookHead> hook_head(const MemoryFile& file, std::string_view name,
                                                pid_t process);

// Whether the first number, which is that of the file's descriptor, still is the one of this file.
[[nodiscard]] inline bool is_of(const HookHead& head, const MemoryFile& file) {
    return head.numbers[0] == static_cast<std::uint64_t>(file.number);
}

}  // namespace batchai::node
