// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/own_directory.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::base {

Result<void> check_own_directory(const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0)
        return fail(fmt::format("cannot be examined: {}", std::strerror(errno)), path);
    if (S_ISLNK(status.st_mode))
        return fail("is a symbolic link, which is not followed here", path,
                    "submit the job again; if you did not make the link, ask who did");
    if (!S_ISDIR(status.st_mode)) return fail("is no directory", path, "submit the job again");
    if (status.st_uid != geteuid())
        return fail(
            fmt::format("belongs to user {}, not to you (user {})", status.st_uid, geteuid()), path,
            "a job is run by the user who has submitted it");
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(
            fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U), path,
            fmt::format("chmod go-w {}", path));
    return {};
}

}  // namespace batchai::base
