// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "storage/copy.hpp"

// File shares and blob containers as directories. Others may be able to write to them, so the
// kernel resolves each path below the open directory: none leads out of it, through ".." or through
// a link.
namespace batchai::storage {

// A path in a share without empty and "." components, and without slashes at its ends. The empty
// path is the share itself. A ".." is an error (ExitCode::usage).
[[nodiscard]] base::Result<std::string> clean_path(std::string_view path);

// Returns the directory and the last component of a clean path.
[[nodiscard]] std::string directory_of(const std::string& path);
[[nodiscard]] std::string name_of(const std::string& path);

enum class EntryKind {
    file,
    directory,
    other,  // a link that leads out of the share or to nothing, a socket, a device
};

struct Entry {
    std::string name;  // its path below the directory that was asked for
    EntryKind kind = EntryKind::file;
    std::int64_t size = 0;
    base::Time modified;
    std::uint64_t inode = 0;
};

class Share {
  public:
    // Opens the directory. A link on the way is followed only where nobody but root and the user
    // could have made it. `name` is the share's, for messages.
    [[nodiscard]] static base::Result<Share> open(const std::string& directory, std::string name);

    [[nodiscard]] const std::string& name() const { return name_; }
    // Returns the path on this host, for messages and URLs.
    [[nodiscard]] std::string path_of(const std::string& path) const;

    // All paths are clean. A path that leads out of the share is refused. not_found: nothing is
    // there.
    [[nodiscard]] base::Result<Entry> examine(const std::string& path) const;
    // Returns one level of a directory, sorted by name.
    [[nodiscard]] base::Result<std::vector<Entry>> list(const std::string& path) const;
    // Returns all files below a directory, sorted, with their paths below it. Follows no link to a
    // directory. Limited to 512 levels.
    [[nodiscard]] base::Result<std::vector<Entry>> files_below(const std::string& path) const;

    // Returns false if the directory exists already. Its parent must exist.
    [[nodiscard]] base::Result<bool> make_directory(const std::string& path) const;
    // Makes the directory and all that lead to it.
    [[nodiscard]] base::Result<void> make_directories(const std::string& path) const;
    // Removes a directory, which must be empty.
    [[nodiscard]] base::Result<void> remove_directory(const std::string& path) const;
    // Removes a file, or a link and not what it leads to.
    [[nodiscard]] base::Result<void> remove_file(const std::string& path) const;

    // Opens a file for reading.
    [[nodiscard]] base::Result<Source> open_file(const std::string& path) const;
    // Copies the file to this path. The directory must exist.
    [[nodiscard]] base::Result<void> put(const Source& source, const std::string& path,
                                         const Copying& copying) const;

  private:
    Share(base::Root root, std::string name) : root_(std::move(root)), name_(std::move(name)) {}
    [[nodiscard]] base::Result<base::FileDescriptor> enter(const std::string& path,
                                                           int flags) const;
    [[nodiscard]] tl::unexpected<base::Error> error_of(const std::string& path, int code) const;
    [[nodiscard]] base::Result<void> collect(int directory, const std::string& below, int depth,
                                             std::vector<Entry>& files) const;

    base::Root root_;
    std::string name_;
};

}  // namespace batchai::storage
