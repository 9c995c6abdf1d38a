// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

// Paths inside a root file system that a stranger made: an image. The kernel resolves them with
// that root as "/" (openat2, RESOLVE_IN_ROOT), so that no link in it, absolute or with "..", leads
// to a place outside.
namespace batchai::node {

// `path` is absolute as a process inside sees it. errno says why it fails.
[[nodiscard]] base::FileDescriptor open_in_root(const base::Root& root, std::string_view path,
                                                int flags, mode_t mode = 0);

// The directory (O_PATH), made with its parents (0755) where it is missing.
[[nodiscard]] base::Result<base::FileDescriptor> make_directory_in_root(const base::Root& root,
                                                                        std::string_view path);

// The file (O_PATH), an empty one where it is missing: something to mount on.
[[nodiscard]] base::Result<base::FileDescriptor> make_file_in_root(const base::Root& root,
                                                                   std::string_view path);

// Puts a new file in the place of whatever is there: a file, a link, a device. Not on a directory.
[[nodiscard]] base::Result<void> write_in_root(const base::Root& root, std::string_view path,
                                               std::string_view text, mode_t mode = 0644);

// Puts a symbolic link to `target`, taken as it is, in the place of whatever is there: a file or a
// link. Not of a directory, nor of what something is mounted on. Does nothing if it is there.
[[nodiscard]] base::Result<void> link_in_root(const base::Root& root, std::string_view path,
                                              const std::string& target);

// The regular file's first bytes, at most `limit`; nothing when there is none that can be read.
[[nodiscard]] std::optional<std::string> read_in_root(const base::Root& root, std::string_view path,
                                                      std::size_t limit = 1UL << 20U);

}  // namespace batchai::node
