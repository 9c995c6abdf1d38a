// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/in_root.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::node {

namespace {

tl::unexpected<base::Error> image_error(std::string_view path, std::string_view what, int code) {
    return base::fail(
        fmt::format("{}: {}", what, std::strerror(code)), fmt::format("{} in the image", path),
        code == EEXIST ? "it is a link that leads nowhere; build the image without it" : "");
}

// Splits `path` into the directory and its last component.
std::pair<std::string_view, std::string> split_last(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return {path.substr(0, slash), std::string(path.substr(slash + 1))};
}

}  // namespace

base::FileDescriptor open_in_root(const base::Root& root, std::string_view path, int flags,
                                  mode_t mode) {
    const std::string text = path.empty() ? "/" : std::string(path);
    return base::open_beneath(root.directory.get(), text, flags, mode, base::Links::as_root);
}

base::Result<base::FileDescriptor> make_directory_in_root(const base::Root& root,
                                                          std::string_view path) {
    base::FileDescriptor current = open_in_root(root, "/", O_PATH | O_DIRECTORY);
    std::string walked;
    for (const std::string_view component : base::split(path, '/')) {
        if (component.empty()) continue;
        const std::string name(component);
        walked += '/' + name;
        base::FileDescriptor next = open_in_root(root, walked, O_PATH | O_DIRECTORY);
        if (!next.valid() && errno == ENOENT) {
            // A link that leads nowhere gives ENOENT as well. Then this fails, because the name is
            // taken.
            if (mkdirat(current.get(), name.c_str(), 0755) != 0)
                return image_error(walked, "cannot be made", errno);
            next = open_in_root(root, walked, O_PATH | O_DIRECTORY);
        }
        if (!next.valid()) return image_error(walked, "cannot be entered", errno);
        current = std::move(next);
    }
    return current;
}

base::Result<base::FileDescriptor> make_file_in_root(const base::Root& root,
                                                     std::string_view path) {
    base::FileDescriptor file = open_in_root(root, path, O_PATH);
    if (file.valid()) return file;
    const auto [parent, name] = split_last(path);
    const auto directory = TRY(make_directory_in_root(root, parent));
    const base::FileDescriptor made(
        openat(directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!made.valid()) return image_error(path, "cannot be made", errno);
    file = open_in_root(root, path, O_PATH);
    if (!file.valid()) return image_error(path, "cannot be opened", errno);
    return file;
}

base::Result<void> write_in_root(const base::Root& root, std::string_view path,
                                 std::string_view text, mode_t mode) {
    const auto [parent, name] = split_last(path);
    const auto directory = TRY(make_directory_in_root(root, parent));
    // The new file is renamed into place, so that an existing one is neither opened nor followed.
    const std::string fresh = fmt::format(".{}.batchai-{}", name, getpid());
    const base::FileDescriptor file(openat(directory.get(), fresh.c_str(),
                                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                           mode));
    if (!file.valid()) return image_error(path, "cannot be written", errno);
    const bool written =
        base::write_all(file.get(), text) && fchmod(file.get(), mode) == 0 &&
        renameat(directory.get(), fresh.c_str(), directory.get(), name.c_str()) == 0;
    if (written) return {};
    const int code = errno;
    unlinkat(directory.get(), fresh.c_str(), 0);
    return image_error(path, "cannot be replaced", code);
}

base::Result<void> link_in_root(const base::Root& root, std::string_view path,
                                const std::string& target) {
    const auto [parent, name] = split_last(path);
    const auto directory = TRY(make_directory_in_root(root, parent));
    std::string now(target.size() + 1, '\0');
    const ssize_t length = readlinkat(directory.get(), name.c_str(), now.data(), now.size());
    if (length >= 0 && std::string_view(now).substr(0, static_cast<std::size_t>(length)) == target)
        return {};
    const std::string fresh = fmt::format(".{}.batchai-{}", name, getpid());
    if (symlinkat(target.c_str(), directory.get(), fresh.c_str()) == 0 &&
        renameat(directory.get(), fresh.c_str(), directory.get(), name.c_str()) == 0)
        return {};
    const int code = errno;
    unlinkat(directory.get(), fresh.c_str(), 0);
    return image_error(path, "cannot be replaced by a link", code);
}

std::optional<std::string> read_in_root(const base::Root& root, std::string_view path,
                                        std::size_t limit) {
    const base::FileDescriptor file = open_in_root(root, path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return std::nullopt;
    std::string text(std::min(limit, static_cast<std::size_t>(status.st_size)), '\0');
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t count = read(file.get(), text.data() + length, text.size() - length);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        length += static_cast<std::size_t>(count);
    }
    text.resize(length);
    return text;
}

}  // namespace batchai::node
