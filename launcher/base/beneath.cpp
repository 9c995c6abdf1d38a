// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/beneath.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
        // Not whom: in a user namespace all others look alike.
        return fail("belongs to another user", path, planted_hint);
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail("other users may write to it", path, "chmod 700 it on the node");
    return {};
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

FileDescriptor open_beneath(int root, const std::string& relative, int flags, mode_t mode) {
    open_how how{};
    how.flags = static_cast<unsigned int>(flags | O_CLOEXEC);
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return FileDescriptor(
        static_cast<int>(syscall(SYS_openat2, root, relative.c_str(), &how, sizeof how)));
}

Result<Root> open_private_directory(const std::string& path) {
    Root root{FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
              path};
    if (!root.directory.valid())
        return fail(fmt::format("cannot be opened as a directory: {}", std::strerror(errno)), path,
                    planted_hint);
    if (auto safe = check_private(root.directory.get(), path); !safe)
        return tl::unexpected<Error>(safe.error());
    return root;
}

Result<FileDescriptor> make_beneath(const Root& root, std::string_view relative) {
    FileDescriptor current(fcntl(root.directory.get(), F_DUPFD_CLOEXEC, 0));
    std::string walked = root.path;
    for (const std::string_view component : split(relative, '/')) {
        const std::string name(component);
        walked += '/' + name;
        if (mkdirat(current.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
            return fail(fmt::format("cannot be made: {}", std::strerror(errno)), walked);
        FileDescriptor next = open_beneath(current.get(), name, O_PATH | O_DIRECTORY);
        if (!next.valid())
            return fail(fmt::format("cannot be entered: {}", std::strerror(errno)), walked,
                        errno == ELOOP ? "it is a symbolic link, which is not followed here" : "");
        current = std::move(next);
    }
    return current;
}

}  // namespace batchai::base
