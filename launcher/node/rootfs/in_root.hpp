// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

// Paths inside the root file system of an image, which is not trusted. The kernel resolves them
// with that root as "/" (openat2, RESOLVE_IN_ROOT), so that no symbolic link in the image, absolute
// or with "..", leads outside.
namespace batchai::node {

// Opens `path`, an absolute path inside the root. If the result is not valid, errno says why.
[[nodiscard]] base::FileDescriptor open_in_root(const base::Root& root, std::string_view path,
                                                int flags, mode_t mode = 0);

// Opens the directory (O_PATH). Makes it and its parents (mode 0755) where they are missing.
[[nodiscard]] base::Result<base::FileDescriptor> make_directory_in_root(const base::Root& root,
                                                                        std::string_view path);

// Opens the file (O_PATH) to mount something on it. Makes an empty file if it is missing.
[[nodiscard]] base::Result<base::FileDescriptor> make_file_in_root(const base::Root& root,
                                                                   std::string_view path);

// Writes a new file, which replaces a file, symbolic link or device of that name. A directory of
// that name is an error.
[[nodiscard]] base::Result<void> write_in_root(const base::Root& root, std::string_view path,
                                               std::string_view text, mode_t mode = 0644);

// Makes a symbolic link with the unchanged text `target`, which replaces a file or link of that
// name. Fails if the name is that of a directory or a mount point. Does nothing if the link exists
// already.
[[nodiscard]] base::Result<void> link_in_root(const base::Root& root, std::string_view path,
                                              const std::string& target);

// Returns the first bytes of the regular file, at most `limit`. Returns nothing if there is no such
// file that can be read.
[[nodiscard]] std::optional<std::string> read_in_root(const base::Root& root, std::string_view path,
                                                      std::size_t limit = 1UL << 20U);

}  // namespace batchai::node
