// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/beneath.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::base {

namespace {

constexpr const char* planted_hint =
    "somebody else made it; ask the admin to remove it from the node";

Result<void> check_private(int directory, const std::string& path) {
    struct stat status {};
    if (fstat(directory, &status) != 0)
        return fail(fmt::format("cannot be examined: {}", std::strerror(errno)), path);
    if (status.st_uid != geteuid())
        // The message does not say to whom the path belongs, because in a user namespace all other
        // users look alike.
        return fail("belongs to another user", path, planted_hint);
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail("other users may write to it", path, "chmod 700 it on the node");
    return {};
}

std::uint64_t resolve_flags(Links links) {
    switch (links) {
        case Links::as_root:
            return RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
        case Links::inside:
            return RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
        case Links::none:
            break;
    }
    return RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
}

// Opens the directory `name` in `parent` and makes it if it is missing. If the result is not valid,
// errno says why; ELOOP means that `name` is a link.
FileDescriptor enter(int parent, const std::string& name, mode_t mode) {
    // O_DIRECTORY makes an automounter mount the directory, which O_PATH alone would not.
    constexpr int flags = O_PATH | O_DIRECTORY;
    FileDescriptor found = open_beneath(parent, name, flags);
    if (found.valid() || errno != ENOENT) return found;
    if (mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) return {};
    return open_beneath(parent, name, flags);
}

// Returns whether somebody besides root and us could have made or replaced an entry of the
// directory.
bool is_shared(const struct stat& directory) {
    const bool ours = directory.st_uid == 0 || directory.st_uid == geteuid();
    return !ours || (directory.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// Says why something could not be opened. EPERM and ENOSYS mislead where it is not the path, but
// openat2 itself that is refused.
std::string why_not_opened(int code) {
    if (code != EPERM && code != ENOSYS) return std::strerror(code);
    const FileDescriptor tried = open_beneath(AT_FDCWD, ".", O_PATH);
    if (tried.valid() || (errno != EPERM && errno != ENOSYS)) return std::strerror(code);
    return fmt::format(
        "the system call openat2 is refused ({}): Linux has it since 5.6, and a seccomp profile "
        "must allow it",
        std::strerror(code));
}

// Opens the directory to which the link `name` leads. `parent.path` already ends with the name.
Result<FileDescriptor> follow_link(const Root& parent, const std::string& name) {
    struct stat status {};
    if (fstat(parent.directory.get(), &status) != 0) return fail(std::strerror(errno), parent.path);
    if (is_shared(status))
        return fail(
            "is a symbolic link in a directory to which others can write, and is not followed",
            parent.path, "if you did not make the link, ask who did; else name its target instead");
    return FileDescriptor(
        openat(parent.directory.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

bool is_plain_relative(std::string_view path) {
    if (path.empty()) return false;
    const auto components = split(path, '/');
    return std::none_of(components.begin(), components.end(), [](std::string_view component) {
        return component.empty() || component == "." || component == "..";
    });
}

Result<std::string> relative_to(const std::string& root, const std::string& path) {
    const bool below = root.starts_with('/') && path.size() > root.size() + 1 &&
                       path.starts_with(root) && path[root.size()] == '/';
    if (!below || !is_plain_relative(std::string_view(path).substr(root.size() + 1)))
        return fail(fmt::format("is not below {}", root), path,
                    "the plan is damaged; submit the job again");
    return path.substr(root.size() + 1);
}

FileDescriptor open_beneath(int root, const std::string& relative, int flags, mode_t mode,
                            Links links) {
    // A path with ".." fails with EAGAIN if anything on the host, whoever's it is, was renamed or
    // mounted during the look-up (openat2(2)). Any user can rename files in a loop.
    constexpr int tries_at_once = 1000;
    constexpr std::chrono::seconds longest{2};
    const auto end = std::chrono::steady_clock::now() + longest;
    open_how how{};
    how.flags = static_cast<unsigned int>(flags | O_CLOEXEC);
    how.mode = mode;
    how.resolve = resolve_flags(links);
    for (int tried = 1;; ++tried) {
        const auto opened =
            static_cast<int>(syscall(SYS_openat2, root, relative.c_str(), &how, sizeof how));
        if (opened >= 0 || (errno != EAGAIN && errno != EINTR)) return FileDescriptor(opened);
        if (tried < tries_at_once) continue;
        if (std::chrono::steady_clock::now() > end) return {};
        sched_yield();
    }
}

Result<Root> open_private_directory(const std::string& path) {
    Root root{FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
              path};
    if (!root.directory.valid())
        return fail(fmt::format("cannot be opened as a directory: {}", std::strerror(errno)), path,
                    planted_hint);
    TRY(check_private(root.directory.get(), path));
    return root;
}

Result<FileDescriptor> make_beneath(const Root& root, std::string_view relative) {
    FileDescriptor current(fcntl(root.directory.get(), F_DUPFD_CLOEXEC, 0));
    std::string walked = root.path;
    for (const std::string_view component : split(relative, '/')) {
        const std::string name(component);
        walked += '/' + name;
        FileDescriptor next = enter(current.get(), name, 0700);
        if (!next.valid())
            return fail(fmt::format("cannot be entered: {}", why_not_opened(errno)), walked,
                        errno == ELOOP ? "it is a symbolic link, which is not followed here" : "");
        current = std::move(next);
    }
    return current;
}

namespace {

// Tells what to do about a directory that is missing.
enum class Missing { made, refused };

Result<Root> walk_guarded(const std::string& path, Missing missing) {
    Root here{FileDescriptor(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), ""};
    for (const std::string_view component : split(path, '/')) {
        if (component.empty() || component == ".") continue;
        if (component == "..") return fail("contains \"..\"", path);
        const std::string name(component);
        here.path += '/' + name;
        FileDescriptor next = missing == Missing::made
                                  ? enter(here.directory.get(), name, 0755)
                                  : open_beneath(here.directory.get(), name, O_PATH | O_DIRECTORY);
        if (!next.valid() && errno == ELOOP) next = TRY(follow_link(here, name));
        if (!next.valid())
            return fail(why_not_opened(errno), here.path, {},
                        errno == ENOENT ? ExitCode::not_found : ExitCode::failed);
        here.directory = std::move(next);
    }
    return here;
}

}  // namespace

Result<Root> make_guarded_directory(const std::string& path) {
    return walk_guarded(path, Missing::made);
}

Result<Root> open_guarded_directory(const std::string& path) {
    return walk_guarded(path, Missing::refused);
}

Result<std::string> read_private_file_guarded(const std::string& path, std::size_t limit) {
    const std::size_t slash = path.rfind('/');
    const Root parent = TRY(open_guarded_directory(path.substr(0, slash)));
    // The directory is open, so the kernel's link to it leads there and nowhere else.
    auto text = read_private_file(
        fmt::format("/proc/self/fd/{}/{}", parent.directory.get(), path.substr(slash + 1)), limit);
    if (text) return text;
    text.error().where = path;
    if (text.error().hint.starts_with("chmod"))
        text.error().hint = fmt::format("chmod 600 {}", path);
    return text;
}

namespace {

// Adds the names in an open directory to `names`. Returns 0, or errno's value if there may be more.
int read_names(int directory, std::vector<std::string>& names) {
    // A descriptor of its own: one that is open for its path alone cannot be read, and the position
    // in the directory belongs to all copies of a descriptor.
    const int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return errno;
    DIR* const stream = fdopendir(own);
    if (stream == nullptr) {
        const int code = errno;
        close(own);
        return code;
    }
    // Only errno tells the end of a directory from an error.
    errno = 0;
    while (const dirent* const entry = readdir(stream)) {
        names.emplace_back(entry->d_name);
        errno = 0;
    }
    const int code = errno;
    closedir(stream);
    return code;
}

}  // namespace

std::vector<std::string> names_in(int directory) {
    std::vector<std::string> names;
    read_names(directory, names);
    return names;
}

Result<std::vector<std::string>> all_names_in(int directory, const std::string& where) {
    std::vector<std::string> names;
    const int code = read_names(directory, names);
    if (code != 0) return system_error("list", where, code);
    return names;
}

}  // namespace batchai::base
