// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/file_follower.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report/output_directory.hpp"

namespace batchai::cli {

// True: all was given; false: the sink asked to stop.
base::Result<bool> FileFollower::drain(int descriptor, const Sink& sink) {
    std::array<char, 65536> buffer{};
    while (true) {
        const auto count = pread(descriptor, buffer.data(), buffer.size(), offset_);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::fail(std::strerror(errno), (root_ / relative_).string());
        if (count == 0) return true;
        offset_ += count;
        if (!sink({buffer.data(), static_cast<std::size_t>(count)})) return false;
    }
}

base::Result<FileFollower::Look> FileFollower::look(const Sink& sink) {
    auto opened = open_below(root_, relative_, O_RDONLY | O_NONBLOCK);
    if (!opened) {
        if (opened.error().exit_code == base::ExitCode::not_found) return Look::absent;
        return tl::unexpected(opened.error());
    }
    struct stat status {};
    if (fstat(opened->get(), &status) != 0) {
        return base::fail(std::strerror(errno), (root_ / relative_).string());
    }
    if (!S_ISREG(status.st_mode)) {
        return base::fail("this is not a regular file", (root_ / relative_).string());
    }
    bool restarted = false;
    const bool same = status.st_dev == device_ && status.st_ino == inode_;
    if (file_.valid() && !same) {
        // What the old file got before its name was taken belongs to the reader, too.
        const auto rest = drain(file_.get(), sink);
        if (!rest) return tl::unexpected(rest.error());
        if (!*rest) return Look::stopped;
    }
    if (file_.valid() && (!same || status.st_size < offset_)) {
        restarted = true;
        offset_ = 0;
    }
    file_ = std::move(*opened);
    device_ = status.st_dev;
    inode_ = status.st_ino;
    const auto before = offset_;
    const auto given = drain(file_.get(), sink);
    if (!given) return tl::unexpected(given.error());
    if (!*given) return Look::stopped;
    if (restarted) return Look::restarted;
    return offset_ > before ? Look::read : Look::nothing_new;
}

}  // namespace batchai::cli
