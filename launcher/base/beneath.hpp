// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"

// Paths below a directory that is held open. The kernel resolves them (openat2) and refuses "..",
// symbolic links and /proc links on the way, so that nobody can lead us elsewhere between a check
// and its use.
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
[[nodiscard]] Result<FileDescriptor> make_beneath(const Root& root, std::string_view relative);

// `path` as seen from `root`, without leading slash. An error unless it is below it, component by
// component ("/a/bc" is not below "/a/b"), with no empty, "." or ".." component.
[[nodiscard]] Result<std::string> relative_to(const std::string& root, const std::string& path);

// True for a non-empty relative path without empty, "." and ".." components.
[[nodiscard]] bool is_plain_relative(std::string_view path);

// openat2 below the root, with the restrictions above; errno says why it fails.
[[nodiscard]] FileDescriptor open_beneath(int root, const std::string& relative, int flags,
                                          mode_t mode = 0);

}  // namespace batchai::base
