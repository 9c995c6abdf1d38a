// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/file_in_memory.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::base {

Result<FileDescriptor> file_in_memory(const std::string& name, std::string_view text) {
    // Linux 6.3 and later can be set up to refuse files in memory that might be executed; earlier
    // ones do not know the flag.
    constexpr unsigned never_executed = 0x0008;  // MFD_NOEXEC_SEAL
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    FileDescriptor file(memfd_create(name.c_str(), flags | never_executed));
    if (!file.valid() && errno == EINVAL) file = FileDescriptor(memfd_create(name.c_str(), flags));
    if (file.valid() && fchmod(file.get(), 0600) == 0 && write_all(file.get(), text) &&
        lseek(file.get(), 0, SEEK_SET) == 0 &&
        fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) ==
            0)
        return file;
    return fail(fmt::format("cannot be prepared: {}", std::strerror(errno)), name);
}

}  // namespace batchai::base
