// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"

// Paths below a directory that is held open. The kernel resolves them (openat2), so that nobody can
// lead us elsewhere between a check and its use. It follows no /proc link ever, and refuses what
// leads out of the directory.
namespace batchai::base {

// A directory's place below a root, for messages.
struct Root {
    FileDescriptor directory;
    std::string path;
};

// A directory that is the user's own: refused when it is a link, belongs to somebody else, or
// others may write to it.
[[nodiscard]] Result<Root> open_private_directory(const std::string& path);

// Opens the directory `relative` below the root (O_PATH); missing components are made, mode 0700.
// No link is followed.
[[nodiscard]] Result<FileDescriptor> make_beneath(const Root& root, std::string_view relative);

// Opens the directory at an absolute path (O_PATH), which anybody may have had a hand in; missing
// components are made, mode 0755. A symbolic link is followed only where nobody but root and the
// user could have put it. The error names the component that is in the way.
[[nodiscard]] Result<Root> make_guarded_directory(const std::string& path);

// `path` as seen from `root`, without leading slash. An error unless it is below it, component by
// component ("/a/bc" is not below "/a/b"), with no empty, "." or ".." component.
[[nodiscard]] Result<std::string> relative_to(const std::string& root, const std::string& path);

// True for a non-empty relative path without empty, "." and ".." components.
[[nodiscard]] bool is_plain_relative(std::string_view path);

// Which symbolic links are followed on the way to a path.
enum class Links {
    none,
    inside,   // those that stay below the directory
    as_root,  // all, with the directory as "/": an absolute one and ".." lead to places in it
};

// openat2 below the open directory; errno says why it fails.
[[nodiscard]] FileDescriptor open_beneath(int root, const std::string& relative, int flags,
                                          mode_t mode = 0, Links links = Links::none);

}  // namespace batchai::base
