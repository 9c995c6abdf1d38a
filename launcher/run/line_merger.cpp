// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/line_merger.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::run {

namespace {

base::Result<void> append(int descriptor, std::string_view bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return base::fail(std::strerror(errno), path);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

}  // namespace

LineMerger::LineMerger(std::vector<std::string> sources, base::FileDescriptor target,
                       std::string target_name)
    : target_(std::move(target)), target_name_(std::move(target_name)) {
    for (std::string& path : sources)
        sources_.push_back({std::move(path), 0});
}

base::Result<void> LineMerger::poll() {
    for (Source& source : sources_) {
        if (auto copied = copy(source, false); !copied) return copied;
    }
    return {};
}

base::Result<void> LineMerger::finish() {
    for (Source& source : sources_) {
        if (auto copied = copy(source, true); !copied) return copied;
    }
    return {};
}

base::Result<void> LineMerger::copy(Source& source, bool with_unfinished_line) {
    struct stat status {};
    const bool exists = stat(source.path.c_str(), &status) == 0;
    if (!exists || static_cast<std::size_t>(status.st_size) <= source.copied) return {};
    const base::FileDescriptor file(::open(source.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return {};
    // Blocks that hold no newline at all are copied as they are, so that memory stays bounded.
    std::string block(1UL << 20U, '\0');
    while (true) {
        const ssize_t count =
            pread(file.get(), block.data(), block.size(), static_cast<off_t>(source.copied));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::fail(std::strerror(errno), source.path);
        std::string_view bytes(block.data(), static_cast<std::size_t>(count));
        const std::size_t last_newline = bytes.rfind('\n');
        const bool full_block = bytes.size() == block.size();
        if (last_newline != std::string_view::npos) {
            bytes = bytes.substr(0, last_newline + 1);
        } else if (!with_unfinished_line && !full_block) {
            return {};
        }
        if (bytes.empty()) return {};
        if (auto done = append(target_.get(), bytes, target_name_); !done) return done;
        source.copied += bytes.size();
    }
}

}  // namespace batchai::run
