// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/file.hpp"

namespace batchai::node {

// A file in memory that a process has open. It has no path but /proc/PID/fd/NUMBER.
struct MemoryFile {
    int number = -1;  // of the descriptor in that process
    base::FileDescriptor file;
};

// Opens the files in memory of this name, which memfd_create(2) has given them, with the flags of
// open(2). There are none if this user may not look into the process.
[[nodiscard]] std::vector<MemoryFile> memory_files(pid_t process, std::string_view name, int flags);

}  // namespace batchai::node
