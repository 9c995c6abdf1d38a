// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/log_directory.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::run {

namespace {

constexpr mode_t others_may_write = S_IWGRP | S_IWOTH;

base::Result<struct stat> status_of(int descriptor, const std::string& path) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) return base::fail(std::strerror(errno), path);
    return status;
}

// Whether somebody besides root and us could have made or exchanged what is in the directory.
bool is_shared(const struct stat& directory) {
    const bool ours = directory.st_uid == 0 || directory.st_uid == geteuid();
    return !ours || (directory.st_mode & others_may_write) != 0;
}

base::FileDescriptor open_directory(int parent, const std::string& name, int more) {
    // With O_DIRECTORY an automounter is roused, which O_PATH alone would not do.
    return base::FileDescriptor(
        openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | more));
}

// The directory `name` in `parent`, which is made if it is missing. `path` is for messages.
base::Result<base::FileDescriptor> enter(int parent, const std::string& name,
                                         const std::string& path) {
    base::FileDescriptor found = open_directory(parent, name, O_NOFOLLOW);
    if (!found.valid() && errno == ENOENT) {
        if (mkdirat(parent, name.c_str(), 0755) != 0 && errno != EEXIST)
            return base::fail(std::strerror(errno), path);
        found = open_directory(parent, name, O_NOFOLLOW);
    }
    if (found.valid()) return found;
    const int error = errno;
    struct stat itself {};
    if (error != ENOTDIR || fstatat(parent, name.c_str(), &itself, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISLNK(itself.st_mode))
        return base::fail(std::strerror(error), path);
    if (is_shared(TRY(status_of(parent, path))))
        return base::fail(
            "is a symbolic link in a directory to which others can write, and is not followed",
            path, "if you did not make the link, ask who did; else name its target instead");
    found = open_directory(parent, name, 0);
    if (!found.valid()) return base::fail(std::strerror(errno), path);
    return found;
}

}  // namespace

base::Result<void> LogDirectory::make() {
    base::FileDescriptor here = open_directory(AT_FDCWD, "/", 0);
    std::string path;
    for (const std::string_view name : base::split(path_, '/')) {
        if (name.empty() || name == ".") continue;
        if (name == "..") return base::fail("leads upwards", path_);
        path += "/" + std::string(name);
        here = TRY(enter(here.get(), std::string(name), path));
    }
    const struct stat status = TRY(status_of(here.get(), path_));
    if (status.st_uid != geteuid())
        return base::fail(
            fmt::format("belongs to user {}, not to you (user {})", status.st_uid, geteuid()),
            path_, "submit the job again; its logs then have another directory");
    if ((status.st_mode & others_may_write) != 0)
        return base::fail(
            fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U),
            path_, fmt::format("chmod go-w {}", path_));
    directory_ = std::move(here);
    return {};
}

base::Result<base::FileDescriptor> LogDirectory::append(const std::string& name) const {
    const std::string path = path_ + "/" + name;
    if (!directory_.valid()) return base::fail("its directory has not been made", path);
    // Not blocking, should somebody have made it a FIFO while the directory was open to others.
    base::FileDescriptor file(
        openat(directory_.get(), name.c_str(),
               O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
    if (!file.valid()) return base::fail(std::strerror(errno), path);
    if (!S_ISREG(TRY(status_of(file.get(), path)).st_mode))
        return base::fail("is no regular file", path);
    return file;
}

void LogDirectory::append_text(const std::string& name, std::string_view text) const {
    const auto file = append(name);
    while (file && !text.empty()) {
        const ssize_t written = write(file->get(), text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

std::string LogDirectory::for_child(const std::string& name) const {
    return fmt::format("/proc/{}/fd/{}/{}", getpid(), directory_.get(), name);
}

}  // namespace batchai::run
