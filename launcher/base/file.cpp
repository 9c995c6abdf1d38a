// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.hpp"

namespace batchai::base {

namespace {

// Writes a complete, synced temporary file beside `path` and returns its path.
Result<std::string> write_temporary(const std::filesystem::path& path, std::string_view bytes,
                                    mode_t mode) {
    std::string name = (path.parent_path() / ("." + path.filename().string() + ".XXXXXX")).string();
    FileDescriptor file(mkostemp(name.data(), O_CLOEXEC));
    if (!file.valid()) return system_error("create a temporary file for it", path);
    const bool complete =
        write_all(file.get(), bytes) && fchmod(file.get(), mode) == 0 && fsync(file.get()) == 0;
    if (complete) return name;
    auto error = system_error("write", path);
    unlink(name.c_str());
    return error;
}

// Returns what the server says of a file. A client of NFS answers stat(2) from what it remembers,
// and asks when a file is opened.
std::optional<struct stat> status_at_server(int directory, const std::string& name) {
    const FileDescriptor file(
        openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    const int found = file.valid() ? fstat(file.get(), &status)
                                   : fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW);
    return found == 0 ? std::optional(status) : std::nullopt;
}

void sync_directory(const std::filesystem::path& directory) {
    // Best effort: some network file systems refuse fsync on directories.
    const FileDescriptor handle(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.valid()) fsync(handle.get());
}

}  // namespace

tl::unexpected<Error> system_error(std::string_view action, const std::filesystem::path& path,
                                   int code) {
    return fail(fmt::format("cannot {}: {}", action, std::strerror(code)), path.string(), {},
                code == ENOENT ? ExitCode::not_found : ExitCode::failed);
}

bool FileDescriptor::close() {
    return ::close(release()) == 0;
}

void FileDescriptor::reset(int descriptor) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = descriptor;
}

namespace {

Result<std::string> read_to_end(const FileDescriptor& file, const std::filesystem::path& path,
                                std::size_t limit) {
    std::string bytes;
    std::size_t length = 0;
    while (true) {
        // Most files are records of less than a page. Clearing more takes longer than reading them.
        if (length == bytes.size()) bytes.resize(std::max(std::size_t{4096}, 2 * length));
        const ssize_t count = read(file.get(), bytes.data() + length, bytes.size() - length);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return system_error("read", path);
        length += static_cast<std::size_t>(count);
        if (length > limit)
            return fail(fmt::format("the file is larger than {} bytes", limit), path.string());
        if (count > 0) continue;
        bytes.resize(length);
        return bytes;
    }
}

}  // namespace

namespace {

Result<std::string> read_file_once(const std::filesystem::path& path, std::size_t limit) {
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0) return system_error("read", path);
    if (!S_ISREG(status.st_mode)) return fail("is not a regular file", path.string());
    return read_to_end(file, path, limit);
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
    errno = 0;
    auto text = read_file_once(path, limit);
    // On NFS: another host has replaced the file after this one had looked up its name.
    if (!text && errno == ESTALE) return read_file_once(path, limit);
    return text;
}

Result<std::string> read_private_file(const std::filesystem::path& path, std::size_t limit) {
    const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    const bool is_link = !file.valid() && errno == ELOOP;
    if (!is_link && (!file.valid() || fstat(file.get(), &status) != 0))
        return system_error("read", path);
    if (is_link || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077U) != 0)
        return fail("must be a file of yours that nobody else can read", path.string(),
                    is_link ? "give the path of the file itself, not of a symbolic link"
                            : fmt::format("chmod 600 {}", path.string()));
    return read_to_end(file, path, limit);
}

std::string end_of_file(const FileDescriptor& file, std::size_t from, std::size_t most) {
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size <= from) return {};
    from = std::max(from, size - std::min(size, most));
    std::string text(size - from, '\0');
    const ssize_t count = pread(file.get(), text.data(), text.size(), static_cast<off_t>(from));
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
}

bool write_all(int descriptor, std::string_view bytes) {
    return write_until_error(descriptor, bytes) == bytes.size();
}

std::size_t write_until_error(int descriptor, std::string_view bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t written = write(descriptor, bytes.data() + done, bytes.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) break;
        done += static_cast<std::size_t>(written);
    }
    return done;
}

bool rename_at(int from_directory, const std::string& from, int to_directory,
               const std::string& to) {
    const auto moved = status_at_server(from_directory, from);
    if (renameat(from_directory, from.c_str(), to_directory, to.c_str()) == 0) return true;
    if (errno != ENOENT || !moved) return false;
    // A client remembers which names there are not, too, until it asks about their directory.
    const std::string above = std::filesystem::path(to).parent_path().string();
    const FileDescriptor asked(openat(to_directory, above.empty() ? "." : above.c_str(),
                                      O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto there = status_at_server(to_directory, to);
    errno = ENOENT;
    return there && there->st_ino == moved->st_ino && there->st_dev == moved->st_dev;
}

bool rename_file(const std::filesystem::path& from, const std::filesystem::path& to) {
    return rename_at(AT_FDCWD, from.string(), AT_FDCWD, to.string());
}

bool make_symbolic_link(const std::string& target, int directory, const std::string& name) {
    if (symlinkat(target.c_str(), directory, name.c_str()) == 0) return true;
    if (errno != EEXIST) return false;
    std::string there(target.size() + 1, '\0');
    const ssize_t length = readlinkat(directory, name.c_str(), there.data(), there.size());
    errno = EEXIST;
    return length >= 0 && there.substr(0, static_cast<std::size_t>(length)) == target;
}

Result<void> write_atomically(const std::filesystem::path& path, std::string_view bytes,
                              mode_t mode) {
    auto temporary = TRY(write_temporary(path, bytes, mode));
    if (!rename_file(temporary, path)) {
        auto error = system_error("replace", path);
        unlink(temporary.c_str());
        return error;
    }
    sync_directory(path.parent_path());
    return {};
}

Result<void> create_exclusively(const std::filesystem::path& path, std::string_view bytes,
                                mode_t mode) {
    auto temporary = TRY(write_temporary(path, bytes, mode));
    int status = link(temporary.c_str(), path.c_str());
    const int code = errno;
    // An NFS client whose server has made the link, but whose answer was lost, asks again and is
    // told that the name exists. The file has two names then.
    if (status != 0 && code == EEXIST) {
        const auto made = status_at_server(AT_FDCWD, temporary);
        if (made && made->st_nlink == 2) status = 0;
    }
    unlink(temporary.c_str());
    if (status == 0) {
        sync_directory(path.parent_path());
        return {};
    }
    errno = code;
    if (code == EEXIST) return fail("already exists", path.string(), {}, ExitCode::refused);
    return system_error("create", path);
}

Result<void> make_directories(const std::filesystem::path& path, mode_t mode) {
    if (path.empty() || mkdir(path.c_str(), mode) == 0) return {};
    if (errno == ENOENT && path.has_parent_path() && path.parent_path() != path) {
        TRY(make_directories(path.parent_path(), mode));
        if (mkdir(path.c_str(), mode) == 0) return {};
    }
    struct stat status {};
    if (errno == EEXIST && stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
    return system_error("create the directory", path);
}

namespace {

// The depth is limited because each level holds a descriptor. What is deeper is moved up before it
// is removed.
constexpr int deepest = 512;
constexpr int entries_per_tick = 256;

class Remover {
  public:
    Remover(dev_t device, const std::function<void()>& tick) : device_(device), tick_(tick) {}

    void remove(int parent, const char* name, int depth) {
        if (tick_ && ++visited_ % entries_per_tick == 0) tick_();
        FileDescriptor directory = open_directory(parent, name);
        if (!directory.valid() && (errno == ENOTDIR || errno == ELOOP))
            return unlink_in(parent, name, 0);
        if (!directory.valid()) return note(name);
        if (depth > deepest) return move_up(parent, name);
        if (depth == 0) top_ = FileDescriptor(fcntl(directory.get(), F_DUPFD_CLOEXEC, 0));
        empty(std::move(directory), name, depth);
        if (depth == 0) remove_moved();
        unlink_in(parent, name, AT_REMOVEDIR);
    }

    [[nodiscard]] Result<void> result(const std::string& path) const {
        if (first_error_.empty()) return {};
        return fail(first_error_, path);
    }

  private:
    // Programs leave directories that their owner cannot read or write, so the owner gets these
    // rights first.
    static FileDescriptor open_directory(int parent, const char* name) {
        constexpr int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        FileDescriptor directory(openat(parent, name, O_RDONLY | flags));
        struct stat status {};
        if (directory.valid()) {
            if (fstat(directory.get(), &status) == 0 && (status.st_mode & S_IRWXU) != S_IRWXU)
                fchmod(directory.get(), S_IRWXU);
            return directory;
        }
        if (errno != EACCES) return directory;
        // The mode is changed through a descriptor, because chmod(2) would follow a link that has
        // taken the directory's place.
        const FileDescriptor closed(openat(parent, name, O_PATH | flags));
        if (!closed.valid()) return {};
        chmod(fmt::format("/proc/self/fd/{}", closed.get()).c_str(), S_IRWXU);
        return FileDescriptor(openat(closed.get(), ".", O_RDONLY | flags));
    }

    void empty(FileDescriptor directory, const char* name, int depth) {
        struct stat status {};
        if (fstat(directory.get(), &status) != 0 || status.st_dev != device_) {
            errno = EXDEV;
            return note(name);
        }
        const int handle = directory.get();
        DIR* const stream = fdopendir(handle);
        if (stream == nullptr) return note(name);
        directory.release();  // the stream owns it now
        while (const dirent* const entry = readdir(stream)) {
            const std::string_view child(entry->d_name);
            if (child != "." && child != "..") remove(handle, entry->d_name, depth + 1);
        }
        closedir(stream);
    }

    void move_up(int parent, const char* name) {
        std::string new_name = ".too-deep-" + random_uuid();
        if (renameat(parent, name, top_.get(), new_name.c_str()) != 0) return note(name);
        moved_.push_back(std::move(new_name));
    }

    void remove_moved() {
        while (!moved_.empty()) {
            const std::string name = std::move(moved_.back());
            moved_.pop_back();
            remove(top_.get(), name.c_str(), 1);
        }
    }

    void unlink_in(int parent, const char* name, int flags) {
        if (unlinkat(parent, name, flags) != 0) note(name);
    }

    void note(const char* name) {
        if (errno != ENOENT && first_error_.empty())
            first_error_ = fmt::format("\"{}\" cannot be removed: {}", name, std::strerror(errno));
    }

    dev_t device_;
    const std::function<void()>& tick_;
    int visited_ = 0;
    FileDescriptor top_;
    std::vector<std::string> moved_;  // names in the top directory
    std::string first_error_;
};

}  // namespace

std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& directory,
                                                         std::error_code& code) {
    std::vector<std::filesystem::directory_entry> found;
    std::filesystem::directory_iterator entry(directory, code);
    for (; !code && entry != std::filesystem::directory_iterator(); entry.increment(code))
        found.push_back(*entry);
    return found;
}

Result<void> remove_tree(int parent, const std::string& name, const std::function<void()>& tick) {
    struct stat status {};
    if (fstat(parent, &status) != 0) return system_error("examine its directory", name);
    Remover remover(status.st_dev, tick);
    remover.remove(parent, name.c_str(), 0);
    return remover.result(name);
}

Result<void> remove_tree(const std::filesystem::path& path, const std::function<void()>& tick) {
    const FileDescriptor parent(open(path.has_parent_path() ? path.parent_path().c_str() : ".",
                                     O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!parent.valid() && errno == ENOENT) return {};
    if (!parent.valid()) return system_error("enter its directory", path);
    auto removed = remove_tree(parent.get(), path.filename().string(), tick);
    if (!removed) removed.error().where = path.string();
    return removed;
}

Result<void> check_own_directory(const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0)
        return fail(fmt::format("cannot be examined: {}", std::strerror(errno)), path);
    if (S_ISLNK(status.st_mode))
        return fail("is a symbolic link, which is not followed here", path,
                    "submit the job again; if you did not make the link, ask who did");
    if (!S_ISDIR(status.st_mode)) return fail("is not a directory", path, "submit the job again");
    if (status.st_uid != geteuid())
        return fail(
            fmt::format("belongs to user {}, not to you (user {})", status.st_uid, geteuid()), path,
            "run the job as the user who submitted it");
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(
            fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U), path,
            fmt::format("chmod go-w {}", path));
    return {};
}

}  // namespace batchai::base
