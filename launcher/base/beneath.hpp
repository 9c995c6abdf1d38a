// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

// Paths below a directory that is held open. The kernel resolves them (openat2), so that nobody can
// lead us elsewhere between a check and its use. It never follows a /proc link, and it refuses a
// path that leads out of the directory.
namespace batchai::base {

// An open directory, and its path for use in messages.
struct Root {
    FileDescriptor directory;
    std::string path;
};

// Opens a directory that is the user's own. Refuses a link, a directory that belongs to somebody
// else, and one to which others may write.
[[nodiscard]] Result<Root> open_private_directory(const std::string& path);

// Makes a directory with mode 0700, whose name nobody else uses. A client of NFS that asks twice is
// told that it exists, so an empty one that is private to the user is taken for the one it made.
[[nodiscard]] Result<void> make_own_directory(const std::string& path);

// Opens the directory `relative` below the root (O_PATH) and follows no link. Makes the components
// that are missing, with mode 0700.
[[nodiscard]] Result<FileDescriptor> make_beneath(const Root& root, std::string_view relative);

// Opens the directory at an absolute path (O_PATH) and makes the components that are missing, with
// mode 0755. Other users may be able to write to directories on the way, so a symbolic link is
// followed only where nobody but root and the user could have made it, and so are the links on the
// way to which it leads. Nothing is made there. The error names the component that is in the way,
// by the path without links. The result has the path as it was given.
[[nodiscard]] Result<Root> make_guarded_directory(const std::string& path);

// Opens the directory at an absolute path by the same rules, and makes nothing. The error is
// not_found if a component is missing.
[[nodiscard]] Result<Root> open_guarded_directory(const std::string& path);
// Reads a file as read_private_file() does, at an absolute path. On the way to it a symbolic link
// is followed only where nobody but root and the user could have made it.
[[nodiscard]] Result<std::string> read_private_file_guarded(const std::string& path,
                                                            std::size_t limit);

// Returns `path` as seen from `root`, without a leading slash. It is an error if `path` is not
// below `root`, component by component ("/a/bc" is not below "/a/b"), or has an empty, "." or ".."
// component.
[[nodiscard]] Result<std::string> relative_to(const std::string& root, const std::string& path);

// Returns true for a relative path that is not empty and has no empty, "." or ".." component.
[[nodiscard]] bool is_plain_relative(std::string_view path);

// Tells which symbolic links are followed on the way to a path.
enum class Links {
    none,
    inside,   // a link is followed as long as it stays below the directory
    as_root,  // all are followed, with the directory as "/", so that none leads out of it
};

// Calls openat2 below the open directory, again if something was renamed meanwhile. If the result
// is not valid, errno says why.
[[nodiscard]] FileDescriptor open_beneath(int root, const std::string& relative, int flags,
                                          mode_t mode = 0, Links links = Links::none);

// Returns the names in an open directory, "." and ".." among them, in no order; as many as can be
// read, which may be none.
[[nodiscard]] std::vector<std::string> names_in(int directory);
// The same for a caller who must not miss one: a directory that cannot be searched or read to its
// end is an error at `where`.
[[nodiscard]] Result<std::vector<std::string>> all_names_in(int directory,
                                                            const std::string& where);

}  // namespace batchai::base
