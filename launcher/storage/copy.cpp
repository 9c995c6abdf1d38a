// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/copy.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"

namespace batchai::storage {

namespace {

constexpr std::size_t chunk = 1UL << 20U;
constexpr std::string_view temporary_begin = ".batchai-";
constexpr std::string_view temporary_end = ".part";

// A file in a directory that is removed unless it gets its name.
class Temporary {
  public:
    Temporary(int directory, mode_t mode)
        : directory_(directory),
          name_(fmt::format("{}{}{}", temporary_begin, base::random_uuid(), temporary_end)),
          file_(openat(directory, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)) {}
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
        if (created_ && !named_) unlinkat(directory_, name_.c_str(), 0);
    }

    [[nodiscard]] bool created() const { return created_; }
    [[nodiscard]] int file() const { return file_.get(); }

    // Returns false, with errno, if what was written may be lost. It is not synced, as cp(1) does
    // not sync either: a batch of many small files would take a second for each on a busy disk.
    [[nodiscard]] bool close() { return file_.close(); }

    // Returns false, with errno, if the file cannot get the name.
    [[nodiscard]] bool take_name(const std::string& name) {
        named_ = base::rename_at(directory_, name_, directory_, name);
        return named_;
    }

  private:
    int directory_;
    std::string name_;
    base::FileDescriptor file_;
    bool created_ = file_.valid();
    bool named_ = false;
};

bool has_arrived(const base::HeldSignals& signals) {
    pollfd waiting{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) > 0;
}

tl::unexpected<base::Error> interrupted(const std::string& path) {
    return base::fail("interrupted", path, "nothing of the new file is left");
}

tl::unexpected<base::Error> cannot_write(const std::string& path, int code) {
    std::string hint;
    if (code == ENOSPC || code == EDQUOT) hint = "nothing of the new file is left";
    if (code == EISDIR) hint = "a directory has this name";
    return base::fail(fmt::format("cannot be written: {}", std::strerror(code)), path, hint);
}

bool write_at(int file, const char* bytes, std::size_t count, off_t at) {
    while (count > 0) {
        const ssize_t written = pwrite(file, bytes, count, at);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes += written;
        count -= static_cast<std::size_t>(written);
        at += written;
    }
    return true;
}

// The part of a file from `begin` to `end` that is not a hole. `begin` is negative if there is
// none.
struct Data {
    off_t begin = -1;
    off_t end = -1;
};

Data data_from(int file, off_t at, off_t size) {
    const off_t begin = lseek(file, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return {};
    // A file system without holes reads all as data.
    if (begin < 0) return at < size ? Data{at, size} : Data{};
    const off_t end = lseek(file, begin, SEEK_HOLE);
    return {begin, end < 0 ? size : std::min(end, size)};
}

// What the new file would replace may be whole.
tl::unexpected<base::Error> has_become_shorter(const Source& source) {
    return base::fail("has become shorter while it was copied", source.path,
                      "copy it again when nobody writes to it");
}

base::Result<void> copy_data(const Source& source, int to, const Data& data,
                             const std::string& path, const Copying& copying) {
    std::vector<char> buffer(chunk);
    for (off_t at = data.begin; at < data.end;) {
        if (has_arrived(copying.signals)) return interrupted(path);
        const auto wanted = std::min<off_t>(data.end - at, static_cast<off_t>(buffer.size()));
        const ssize_t count =
            pread(source.file.get(), buffer.data(), static_cast<std::size_t>(wanted), at);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0)
            return base::fail(fmt::format("cannot be read: {}", std::strerror(errno)), source.path);
        if (count == 0) return has_become_shorter(source);
        if (!write_at(to, buffer.data(), static_cast<std::size_t>(count), at - source.begin))
            return cannot_write(path, errno);
        at += count;
        if (copying.progress) copying.progress(at - source.begin);
    }
    return {};
}

base::Result<void> copy_bytes(const Source& source, int to, const std::string& path,
                              const Copying& copying) {
    for (off_t at = source.begin; at < source.end;) {
        const Data data = data_from(source.file.get(), at, source.end);
        if (data.begin < 0) break;
        TRY(copy_data(source, to, data, path, copying));
        at = data.end;
    }
    // A hole at the end may have been cut off.
    struct stat status {};
    if (fstat(source.file.get(), &status) == 0 && status.st_size < source.end)
        return has_become_shorter(source);
    if (ftruncate(to, source.end - source.begin) != 0) return cannot_write(path, errno);
    return {};
}

}  // namespace

bool is_incomplete_copy(std::string_view name) {
    return name.starts_with(temporary_begin) && name.ends_with(temporary_end);
}

base::Result<Source> source_of(base::FileDescriptor file, std::string path) {
    struct stat status {};
    if (fstat(file.get(), &status) != 0) return base::system_error("read", path);
    if (S_ISDIR(status.st_mode))
        return base::fail("is a directory, not a file", path,
                          "upload-batch and download-batch copy whole directories");
    if (!S_ISREG(status.st_mode)) return base::fail("is not a regular file", path);
    return Source{.file = std::move(file),
                  .path = std::move(path),
                  .begin = 0,
                  .end = status.st_size,
                  .mode = status.st_mode};
}

base::Result<Source> part_of(Source source, const Range& range) {
    const std::int64_t first = range.first.value_or(0);
    const std::int64_t last = range.last.value_or(source.end - 1);
    if (first < 0 || (range.last && last < first) || (range.first && first >= source.end))
        return base::fail(fmt::format("has {} bytes, so there is no part from byte {} to byte {}",
                                      source.end, first, last),
                          source.path, "", base::ExitCode::usage);
    source.begin = first;
    source.end = std::min(source.end - 1, last) + 1;
    return source;
}

base::Result<Source> open_source(const std::string& path) {
    base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) return base::system_error("read", path);
    return source_of(std::move(file), path);
}

base::Result<void> copy_to(const Source& source, int directory, const std::string& name,
                           const std::string& path, const Copying& copying) {
    // A program stays executable; the umask decides about everything else.
    const mode_t mode = 0666U | (source.mode & 0111U);
    Temporary temporary(directory, mode);
    if (!temporary.created()) return cannot_write(path, errno);
    TRY(copy_bytes(source, temporary.file(), path, copying));
    if (!temporary.close()) return cannot_write(path, errno);
    if (has_arrived(copying.signals)) return interrupted(path);
    if (!temporary.take_name(name)) return cannot_write(path, errno);
    return {};
}

}  // namespace batchai::storage
