// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"

// What git says about a directory. git runs no program that the repository's configuration names,
// and gets no variable by which a caller could point it elsewhere. It refuses a repository that
// belongs to another user, whatever the user's safe.directory says.
namespace batchai::snapshot {

struct Repository {
    std::string commit;  // empty: there is none yet
    std::string branch;  // empty: none is checked out
    std::string remote;  // the URL of "origin", without credentials
    // What differs from the commit in the directory, as a patch; empty if nothing does. Absent if
    // the patch is too large to be kept.
    std::optional<std::string> patch;
    bool untracked = false;  // there are files that git does not know and does not ignore

    [[nodiscard]] bool dirty() const { return untracked || !patch || !patch->empty(); }
};

// The device and the inode of a file, which are the same by whatever path it is reached.
using FileIdentity = std::pair<dev_t, ino_t>;
// Follows links. Returns nothing if there is no such file.
[[nodiscard]] std::optional<FileIdentity> identity_of(const std::string& path);
[[nodiscard]] std::set<FileIdentity> identities_of(const std::vector<std::string>& paths);

// Returns nothing if the directory is in no work tree, or git ignores it. The error says why git
// cannot be asked. The patch leaves out `private_files`, which are absolute paths.
[[nodiscard]] base::Result<std::optional<Repository>> repository_of(
    const std::string& directory, const std::vector<std::string>& private_files);

// Returns the files below the directory that git knows, or does not know and does not ignore. Their
// paths are relative to the directory. A nested repository is one path.
[[nodiscard]] base::Result<std::vector<std::string>> files_of(const std::string& directory);

// Returns the URL without user, password, query and fragment, any of which can have a token.
[[nodiscard]] std::string without_credentials(std::string_view url);

}  // namespace batchai::snapshot
