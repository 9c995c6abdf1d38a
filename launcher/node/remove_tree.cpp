// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/remove_tree.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::node {

namespace {

// Deeper than any path can name; each level holds a descriptor.
constexpr int deepest = 512;

class Remover {
  public:
    explicit Remover(dev_t device) : device_(device) {}

    void remove(int parent, const char* name, int depth) {
        // O_NONBLOCK for a named pipe, which O_DIRECTORY refuses anyway.
        const int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (handle < 0 && (errno == ENOTDIR || errno == ELOOP)) {
            if (unlinkat(parent, name, 0) != 0 && errno != ENOENT) note(name);
            return;
        }
        if (handle < 0) {
            if (errno != ENOENT) note(name);
            return;
        }
        empty(handle, name, depth);
        if (unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) note(name);
    }

    [[nodiscard]] base::Result<void> result() const {
        if (first_error_.empty()) return {};
        return base::fail(first_error_);
    }

  private:
    // Takes over the handle.
    void empty(int handle, const char* name, int depth) {
        struct stat status {};
        if (depth > deepest || fstat(handle, &status) != 0 || status.st_dev != device_) {
            errno = depth > deepest ? ENAMETOOLONG : EXDEV;
            note(name);
            close(handle);
            return;
        }
        // A directory of ours that its program made read-only can still be emptied.
        if ((status.st_mode & S_IRWXU) != S_IRWXU && fchmod(handle, S_IRWXU) != 0) note(name);
        DIR* const stream = fdopendir(handle);
        if (stream == nullptr) {
            note(name);
            close(handle);
            return;
        }
        while (const dirent* const entry = readdir(stream)) {
            const std::string_view child(entry->d_name);
            if (child != "." && child != "..") remove(handle, entry->d_name, depth + 1);
        }
        closedir(stream);
    }

    void note(const char* name) {
        if (first_error_.empty())
            first_error_ = fmt::format("cannot remove \"{}\": {}", name, std::strerror(errno));
    }

    dev_t device_;
    std::string first_error_;
};

}  // namespace

base::Result<void> remove_tree(int parent, const std::string& name) {
    struct stat status {};
    if (fstat(parent, &status) != 0)
        return base::fail(fmt::format("cannot be examined: {}", std::strerror(errno)), name);
    Remover remover(status.st_dev);
    remover.remove(parent, name.c_str(), 0);
    return remover.result();
}

}  // namespace batchai::node
