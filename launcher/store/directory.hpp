// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

// Makes and removes directories below the store's root `home`. A directory appears with all its
// content, and disappears, in one step.
namespace batchai::store {

// Makes a new empty directory home/.new/<uuid> of mode 0700.
[[nodiscard]] base::Result<std::filesystem::path> new_directory(const std::filesystem::path& home);

// Renames `from` to `to` and makes the parent of `to` if it is missing. Refused ("already exists")
// if `to` exists and is not an empty directory. On an error `from` is removed.
[[nodiscard]] base::Result<void> publish_directory(const std::filesystem::path& from,
                                                   const std::filesystem::path& to);

// Renames the file or directory to home/.trash/<uuid> and deletes it there. Also deletes what
// crashes left in .new and .trash more than a day ago. The error is not_found if `path` does not
// exist.
[[nodiscard]] base::Result<void> discard(const std::filesystem::path& home,
                                         const std::filesystem::path& path);

// Returns the names in the directory, sorted. A directory that does not exist has none.
[[nodiscard]] base::Result<std::vector<std::string>> names_in(
    const std::filesystem::path& directory);

// Waits until no other process of this host updates a record, and lets none do so while the
// returned file is open. On a file system that has no locks it returns at once. Fails if another
// process keeps the lock for ten seconds.
[[nodiscard]] base::Result<base::FileDescriptor> lock_updates(const std::filesystem::path& home);

}  // namespace batchai::store
