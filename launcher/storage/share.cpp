// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/share.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::storage {

namespace {

using base::ExitCode;
using base::Result;

// The depth is limited because each level holds a descriptor.
constexpr int deepest = 512;

Entry entry_of(std::string name, const struct stat& status) {
    Entry entry;
    entry.name = std::move(name);
    entry.kind = S_ISREG(status.st_mode)   ? EntryKind::file
                 : S_ISDIR(status.st_mode) ? EntryKind::directory
                                           : EntryKind::other;
    entry.size = entry.kind == EntryKind::file ? std::int64_t{status.st_size} : 0;
    entry.modified = base::Time{std::chrono::seconds(status.st_mtim.tv_sec)};
    entry.inode = status.st_ino;
    return entry;
}

// Follows a link only if it stays below `root`. If the result is empty, errno says why.
std::optional<Entry> examine_in(int root, int directory, const std::string& path,
                                const std::string& name) {
    struct stat status {};
    if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    if (S_ISLNK(status.st_mode)) {
        const auto target = base::open_beneath(root, path, O_PATH, 0, base::Links::inside);
        struct stat of_target {};
        if (target.valid() && fstat(target.get(), &of_target) == 0) status = of_target;
    }
    return entry_of(name, status);
}

std::string joined(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : directory + "/" + name;
}

bool by_name(const Entry& a, const Entry& b) {
    return a.name < b.name;
}

}  // namespace

Result<std::string> clean_path(std::string_view path) {
    if (path.find('\0') != std::string_view::npos)
        return base::fail("contains a zero byte", "--path", {}, ExitCode::usage);
    std::vector<std::string_view> components;
    for (const std::string_view component : base::split(path, '/')) {
        if (component.empty() || component == ".") continue;
        if (component == "..")
            return base::fail("the path leaves the share", std::string(path),
                              "write it without \"..\"", ExitCode::usage);
        components.push_back(component);
    }
    return fmt::format("{}", fmt::join(components, "/"));
}

std::string directory_of(const std::string& path) {
    const auto slash = path.find_last_of('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
    const auto slash = path.find_last_of('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

Result<Share> Share::open(const std::string& directory, std::string name) {
    return Share(TRY(base::open_guarded_directory(directory)), std::move(name));
}

std::string Share::path_of(const std::string& path) const {
    return path.empty() ? root_.path : joined(root_.path, path);
}

tl::unexpected<base::Error> Share::error_of(const std::string& path, int code) const {
    if (code == EXDEV || code == ELOOP)
        return base::fail(fmt::format("the path leaves the share \"{}\"", name_), path,
                          "links are followed only within the share", ExitCode::usage);
    return base::fail(std::strerror(code), path_of(path), {},
                      code == ENOENT || code == ENOTDIR ? ExitCode::not_found : ExitCode::failed);
}

Result<base::FileDescriptor> Share::enter(const std::string& path, int flags) const {
    auto file = base::open_beneath(root_.directory.get(), path.empty() ? "." : path, flags, 0,
                                   base::Links::inside);
    if (!file.valid()) return error_of(path, errno);
    return file;
}

Result<Entry> Share::examine(const std::string& path) const {
    const auto file = TRY(enter(path, O_PATH));
    struct stat status {};
    if (fstat(file.get(), &status) != 0) return error_of(path, errno);
    return entry_of(name_of(path), status);
}

Result<std::vector<Entry>> Share::list(const std::string& path) const {
    const auto directory = TRY(enter(path, O_RDONLY | O_DIRECTORY));
    std::vector<Entry> entries;
    const auto names = TRY(base::all_names_in(directory.get(), path_of(path)));
    for (const std::string& name : names) {
        if (name == "." || name == "..") continue;
        // A file may have been removed in the meantime.
        auto entry = examine_in(root_.directory.get(), directory.get(), joined(path, name), name);
        if (!entry && errno == ENOENT) continue;
        if (!entry) return error_of(joined(path, name), errno);
        entries.push_back(std::move(*entry));
    }
    std::sort(entries.begin(), entries.end(), by_name);
    return entries;
}

Result<void> Share::collect(int directory, const std::string& below, int depth,
                            std::vector<Entry>& files) const {
    if (depth > deepest)
        return base::fail(fmt::format("has more than {} levels of directories", deepest), name_);
    const auto names = TRY(base::all_names_in(directory, path_of(below)));
    for (const std::string& name : names) {
        if (name == "." || name == "..") continue;
        struct stat status {};
        if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) continue;
            return error_of(joined(below, name), errno);
        }
        const std::string path = joined(below, name);
        if (!S_ISDIR(status.st_mode)) {
            if (S_ISREG(status.st_mode)) files.push_back(entry_of(path, status));
            continue;
        }
        const base::FileDescriptor child(
            openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!child.valid() && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)) continue;
        if (!child.valid()) return error_of(path, errno);
        TRY(collect(child.get(), path, depth + 1, files));
    }
    return {};
}

Result<std::vector<Entry>> Share::files_below(const std::string& path) const {
    const auto directory = TRY(enter(path, O_RDONLY | O_DIRECTORY));
    std::vector<Entry> files;
    TRY(collect(directory.get(), "", 0, files));
    std::sort(files.begin(), files.end(), by_name);
    return files;
}

Result<bool> Share::make_directory(const std::string& path) const {
    if (path.empty()) return false;
    const auto parent = enter(directory_of(path), O_PATH | O_DIRECTORY);
    if (!parent) {
        if (parent.error().exit_code != ExitCode::not_found) return tl::unexpected(parent.error());
        return base::fail("The specified parent path does not exist.", path_of(path),
                          "create the directory above it first", ExitCode::not_found);
    }
    if (mkdirat(parent->get(), name_of(path).c_str(), 0777) == 0) return true;
    if (errno != EEXIST) return error_of(path, errno);
    const auto found = TRY(examine(path));
    if (found.kind == EntryKind::directory) return false;
    return base::fail("a file has this name", path_of(path), "choose another name",
                      ExitCode::refused);
}

Result<void> Share::make_directories(const std::string& path) const {
    std::string so_far;
    for (const std::string_view component : base::split(path, '/')) {
        if (component.empty()) continue;
        so_far = joined(so_far, std::string(component));
        TRY(make_directory(so_far));
    }
    return {};
}

Result<void> Share::remove_directory(const std::string& path) const {
    const auto parent = TRY(enter(directory_of(path), O_PATH | O_DIRECTORY));
    if (unlinkat(parent.get(), name_of(path).c_str(), AT_REMOVEDIR) == 0) return {};
    if (errno == ENOTEMPTY || errno == EEXIST)
        return base::fail("The specified directory is not empty.", path_of(path),
                          "`az storage file delete-batch` removes the files in it");
    return error_of(path, errno);
}

Result<void> Share::remove_file(const std::string& path) const {
    const auto parent = TRY(enter(directory_of(path), O_PATH | O_DIRECTORY));
    if (unlinkat(parent.get(), name_of(path).c_str(), 0) == 0) return {};
    if (errno == EISDIR)
        return base::fail("is a directory, not a file", path_of(path),
                          "`az storage directory delete` removes an empty directory");
    return error_of(path, errno);
}

Result<Source> Share::open_file(const std::string& path) const {
    return source_of(TRY(enter(path, O_RDONLY | O_NONBLOCK)), path_of(path));
}

Result<void> Share::put(const Source& source, const std::string& path,
                        const Copying& copying) const {
    const auto directory = enter(directory_of(path), O_PATH | O_DIRECTORY);
    if (!directory) {
        if (directory.error().exit_code != ExitCode::not_found)
            return tl::unexpected(directory.error());
        return base::fail("The specified parent path does not exist.", path_of(path),
                          "create it with `az storage directory create`", ExitCode::not_found);
    }
    return copy_to(source, directory->get(), name_of(path), path_of(path), copying);
}

}  // namespace batchai::storage
