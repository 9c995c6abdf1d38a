// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/beneath.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
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

Result<void> make_own_directory(const std::string& path) {
    if (mkdir(path.c_str(), 0700) == 0) return {};
    if (errno != EEXIST) return system_error("create the directory", path);
    TRY(open_private_directory(path));
    std::error_code code;
    if (std::filesystem::is_empty(path, code) && !code) return {};
    return fail("exists already", path, {}, ExitCode::refused);
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

// Walks an absolute path one component at a time. It also walks the target of each symbolic link,
// because somebody else may be able to write to a directory on the way that the link takes.
class GuardedWalk {
  public:
    explicit GuardedWalk(Missing missing) : missing_(missing) {}

    Result<Root> to(const std::string& path) {
        const auto components = split(path, '/');
        if (std::find(components.begin(), components.end(), "..") != components.end())
            return fail("contains \"..\"", path);
        begin_at_root();
        std::string walked;
        for (const std::string_view component : components) {
            if (component.empty() || component == ".") continue;
            walked += fmt::format("/{}", component);
            TRY(enter_component(std::string(component), missing_));
            TRY(follow_links());
        }
        return Root{std::move(way_.back().directory), std::move(walked)};
    }

  private:
    void begin_at_root() {
        way_.clear();
        way_.push_back({FileDescriptor(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), ""});
    }

    // Enters the directory `name`. If it is a link, adds the components of its target to
    // `of_links_` instead.
    Result<void> enter_component(const std::string& name, Missing missing) {
        const Root& here = way_.back();
        const std::string path = here.path + '/' + name;
        FileDescriptor next = missing == Missing::made
                                  ? enter(here.directory.get(), name, 0755)
                                  : open_beneath(here.directory.get(), name, O_PATH | O_DIRECTORY);
        if (!next.valid() && errno == ELOOP) return take_target(name, path);
        if (!next.valid())
            return fail(why_not_opened(errno), path, {},
                        errno == ENOENT ? ExitCode::not_found : ExitCode::failed);
        way_.push_back({std::move(next), path});
        return {};
    }

    Result<void> take_target(const std::string& name, const std::string& path) {
        const int parent = way_.back().directory.get();
        struct stat status {};
        if (fstat(parent, &status) != 0) return fail(std::strerror(errno), path);
        if (is_shared(status))
            return fail(
                "is a symbolic link in a directory to which others can write, and is not followed",
                path, "if you did not make the link, ask who did; else name its target instead");
        std::array<char, PATH_MAX> text{};
        const ssize_t length = readlinkat(parent, name.c_str(), text.data(), text.size());
        if (length < 0) return fail(std::strerror(errno), path);
        if (++links_ > most_links) return fail(std::strerror(ELOOP), path);
        const std::string_view target(text.data(), static_cast<std::size_t>(length));
        if (target.starts_with('/')) begin_at_root();
        const auto components = split(target, '/');
        of_links_.insert(of_links_.end(), components.rbegin(), components.rend());
        return {};
    }

    Result<void> follow_links() {
        while (!of_links_.empty()) {
            const std::string name = std::move(of_links_.back());
            of_links_.pop_back();
            if (name == "..") {
                if (way_.size() > 1) way_.pop_back();
            } else if (!name.empty() && name != ".") {
                TRY(enter_component(name, Missing::refused));
            }
        }
        return {};
    }

    static constexpr int most_links = 40;  // as the kernel's

    Missing missing_;
    std::vector<Root> way_;              // from "/" to the directory that has been reached
    std::vector<std::string> of_links_;  // components of links' targets, the next one last
    int links_ = 0;
};

}  // namespace

Result<Root> make_guarded_directory(const std::string& path) {
    return GuardedWalk(Missing::made).to(path);
}

Result<Root> open_guarded_directory(const std::string& path) {
    return GuardedWalk(Missing::refused).to(path);
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
