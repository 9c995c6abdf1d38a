// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/tree.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::image {

namespace {

// Deeper than any path can name; each level holds a descriptor.
constexpr int deepest = 512;
constexpr int entries_per_tick = 256;

struct Close {
    void operator()(DIR* stream) const { closedir(stream); }
};
using Stream = std::unique_ptr<DIR, Close>;

// Walks a tree from below: children before their directory.
class Walk {
  public:
    enum class Action { make_readable, remove };

    Walk(Action action, const std::function<void()>& tick) : action_(action), tick_(tick) {}

    void visit(int parent, const char* name, int depth) {
        if (tick_ && ++visited_ % entries_per_tick == 0) tick_();
        struct stat status {};
        if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return note(name);
        if (S_ISDIR(status.st_mode)) {
            directory(parent, name, status, depth);
        } else if (action_ == Action::remove) {
            if (unlinkat(parent, name, 0) != 0) note(name);
        } else if (S_ISREG(status.st_mode) && (status.st_mode & S_IRUSR) == 0) {
            // Not a link a moment ago, and the tree is ours alone.
            if (fchmodat(parent, name, (status.st_mode & 0777U) | S_IRUSR, 0) != 0) note(name);
        }
    }

    [[nodiscard]] base::Result<void> result(const std::string& path) const {
        if (first_error_.empty()) return {};
        return base::fail(first_error_, path);
    }

  private:
    void directory(int parent, const char* name, const struct stat& status, int depth) {
        if (depth > deepest) {
            errno = ENAMETOOLONG;
            return note(name);
        }
        if ((status.st_mode & S_IRWXU) != S_IRWXU &&
            fchmodat(parent, name, (status.st_mode & 0777U) | S_IRWXU, 0) != 0)
            return note(name);
        const int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (handle < 0) return note(name);
        const Stream stream(fdopendir(handle));
        if (!stream) {
            close(handle);
            return note(name);
        }
        while (const dirent* const entry = readdir(stream.get())) {
            const std::string_view child(entry->d_name);
            if (child != "." && child != "..") visit(handle, entry->d_name, depth + 1);
        }
        if (action_ == Action::remove && unlinkat(parent, name, AT_REMOVEDIR) != 0) note(name);
    }

    void note(const char* name) {
        if (errno == ENOENT || !first_error_.empty()) return;
        first_error_ =
            fmt::format("\"{}\" cannot be {}: {}", name,
                        action_ == Action::remove ? "removed" : "read", std::strerror(errno));
    }

    Action action_;
    const std::function<void()>& tick_;
    int visited_ = 0;
    std::string first_error_;
};

std::int64_t size_below(int handle, int depth) {
    const Stream stream(fdopendir(handle));
    if (!stream || depth > deepest) {
        if (!stream) close(handle);
        return 0;
    }
    std::int64_t total = 0;
    while (const dirent* const entry = readdir(stream.get())) {
        const std::string_view child(entry->d_name);
        if (child == "." || child == "..") continue;
        struct stat status {};
        if (fstatat(handle, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(status.st_mode)) total += status.st_size;
        if (!S_ISDIR(status.st_mode)) continue;
        const int below =
            openat(handle, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0) total += size_below(below, depth + 1);
    }
    return total;
}

}  // namespace

base::Result<void> make_readable(const std::string& path, const std::function<void()>& tick) {
    Walk walk(Walk::Action::make_readable, tick);
    walk.visit(AT_FDCWD, path.c_str(), 0);
    return walk.result(path);
}

base::Result<void> remove_tree(const std::string& path, const std::function<void()>& tick) {
    Walk walk(Walk::Action::remove, tick);
    walk.visit(AT_FDCWD, path.c_str(), 0);
    return walk.result(path);
}

std::int64_t size_of_tree(const std::string& path) {
    const int handle = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return handle < 0 ? 0 : size_below(handle, 0);
}

}  // namespace batchai::image
