// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"

// Directories that appear whole and disappear at once, below the store's root `home`.
namespace batchai::store {

// A new empty directory home/.new/<uuid> of mode 0700.
[[nodiscard]] base::Result<std::filesystem::path> new_directory(const std::filesystem::path& home);

// Renames `from` to `to`, whose parent is made if missing; refused ("already exists") when `to` is
// there and is not an empty directory. On an error `from` is removed.
[[nodiscard]] base::Result<void> publish_directory(const std::filesystem::path& from,
                                                   const std::filesystem::path& to);

// Renames the file or directory to home/.trash/<uuid> and deletes it there, and with it what
// crashes left in .new and .trash more than a day ago. not_found when it is not there.
[[nodiscard]] base::Result<void> discard(const std::filesystem::path& home,
                                         const std::filesystem::path& path);

// Names in the directory, sorted; none if it does not exist.
[[nodiscard]] base::Result<std::vector<std::string>> names_in(
    const std::filesystem::path& directory);

// A record's text: a regular file of at most 4 MiB; anything else is an error (not_found if
// absent).
[[nodiscard]] base::Result<std::string> read_record(const std::filesystem::path& path);

}  // namespace batchai::store
