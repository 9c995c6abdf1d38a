// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_file.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

namespace mpi_bridge {
namespace {

constexpr std::string_view opening = "[\n";
constexpr std::string_view closing = "\n]\n";
constexpr std::string_view between = ",\n";

std::string reason(int error) {
    return std::generic_category().message(error);
}

}  // namespace

Outcome<std::unique_ptr<TimelineFile>> TimelineFile::create(std::string path) {
    const int descriptor =
        open(path.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (descriptor < 0) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    fmt::format("timeline: cannot create \"{}\": {}", path, reason(errno)));
    }
    std::unique_ptr<TimelineFile> file(new TimelineFile(std::move(path), descriptor));
    std::string start(opening);
    start += closing;
    if (Done written = file->write_at(start, 0); !written) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT, std::move(written).error().text);
    }
    file->end_ = static_cast<off_t>(opening.size());
    return file;
}

TimelineFile::TimelineFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

TimelineFile::~TimelineFile() {
    close(descriptor_);
}

Done TimelineFile::write_at(std::string_view bytes, off_t offset) const {
    while (!bytes.empty()) {
        const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            // A file system that accepts nothing and gives no reason is full.
            const int error = written < 0 ? errno : ENOSPC;
            return fail(MPIB_ERROR_INTERNAL,
                        fmt::format("timeline: cannot write \"{}\": {}", path_, reason(error)));
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
        offset += written;
    }
    return {};
}

Done TimelineFile::append(std::string_view elements) {
    buffer_.clear();
    if (!empty_) buffer_ += between;
    buffer_ += elements;
    const auto added = static_cast<off_t>(buffer_.size());
    buffer_ += closing;
    if (Done written = write_at(buffer_, end_); !written) {
        // Returns to the last complete state, for which there is room. If even that fails, the
        // reader finds a torn last line, as after a kill.
        if (ftruncate(descriptor_, end_) == 0) {
            const Done ignored = write_at(closing, end_);
            static_cast<void>(ignored);
        }
        return written;
    }
    end_ += added;
    empty_ = false;
    return {};
}

}  // namespace mpi_bridge
