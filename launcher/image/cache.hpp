// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "site/site.hpp"

namespace batchai::image {

// The directories of imported images.
struct Places {
    std::string own;         // absolute path; the user's own
    std::string shared;      // the site's; may be empty
    int shared_owner = 0;    // id of the user who fills `shared`, besides root
    std::int64_t limit = 0;  // limit in bytes of `own`; 0: none
};

// `batchai_home` is the directory of the user's records.
[[nodiscard]] Places places_of(const site::Site& site, const std::string& batchai_home,
                               const std::string& user_name);

// The cache of images. A directory has these files:
//
//   <stem>.squashfs    the root file system of the image with that digest; appears whole, with
//                      its name, and never changes. Its modification time is the time of last use
//   <stem>.json        the image's name, for people; may be missing
//   .import/           imports in progress, see lease.hpp and import.hpp
//
// An image is identified by the SHA-256 of its manifest: "sha256:<64 digits>" in a registry, and
// "local:<64 digits>" in a layout or an archive, so that no file which somebody wrote can take the
// place of a registry's image. The stem is "<64 digits>" or "local-<64 digits>".
//
// Readers take no lock. A directory or file is trusted only if nobody else can write to it, and if
// it belongs to the user, to root or, in the shared directory, to the user whom site.lua names for
// it. The user's own images have mode 0400, because their content may be private.

struct Entry {
    std::string digest;  // "sha256:…" or "local:…"
    std::string image;   // a name that it was imported under; empty if not known
    std::string path;
    std::int64_t bytes = 0;
    base::Time last_used;
    bool shared = false;
    bool operator==(const Entry&) const = default;
};

// Returns the digests of the images of jobs that have not ended, whether they have started or not.
// An error says that they are not known.
using InUse = std::function<base::Result<std::set<std::string>>()>;

[[nodiscard]] std::string entry_stem(const std::string& digest);
// Returns the digest with that stem, or an empty text if there can be none.
[[nodiscard]] std::string digest_of_stem(std::string_view stem);
[[nodiscard]] std::string entry_path(const std::string& directory, const std::string& digest);
// Returns what identifies the image of a file whose manifest has the digest.
[[nodiscard]] std::string local_digest(std::string_view digest);
// Compares two digests without regard to where the images are.
[[nodiscard]] bool same_digits(std::string_view left, std::string_view right);

// The `owner` that trusts nobody but the user and root; see FrozenImage::root_owner.
inline constexpr int nobody_else = -1;

// Refuses a directory into which somebody other than the user, root and `owner` could have put
// something. The error names the directory and says what to do.
[[nodiscard]] base::Result<void> check_cache_directory(const std::string& directory,
                                                       int owner = nobody_else);

// Checks the directory in the same way, and makes it with mode 0700 if it does not exist. Its
// parent must exist.
[[nodiscard]] base::Result<void> make_cache_directory(const std::string& directory,
                                                      int owner = nobody_else);

// Returns whether the file exists. A file that exists but cannot be trusted is an error.
[[nodiscard]] base::Result<bool> is_there(const std::string& path, int owner = nobody_else);

// Sets the time of last use of an image to now. Best effort.
void note_use(const std::string& path);

struct Root {
    std::string path;
    int owner = nobody_else;
    bool operator==(const Root&) const = default;
};

// Returns where the image's root is or will be: in the shared directory if it exists there, else in
// the user's own.
[[nodiscard]] base::Result<Root> choose_root(const Places& places, const std::string& digest);

// Returns the images in a directory, the most recently used first. A directory that does not exist
// has none.
[[nodiscard]] base::Result<std::vector<Entry>> entries(const std::string& directory, bool shared,
                                                       int owner = nobody_else);

// Returns the images in both directories.
[[nodiscard]] base::Result<std::vector<Entry>> all_entries(const Places& places);

[[nodiscard]] base::Result<void> remove_entry(const Entry& entry);

// Returns the entries to remove so that the others have at most `limit` bytes together: the least
// recently used ones, but none of `keep`. If this does not free enough, returns all that may be
// removed.
[[nodiscard]] std::vector<Entry> surplus(std::vector<Entry> entries, std::int64_t limit,
                                         const std::set<std::string>& keep);

// Removes the surplus of `directory`, except `digest` and the images in use. Calls `in_use` only if
// something has to be removed, and removes nothing if that is an error. Stops at the first entry
// that cannot be removed.
void shrink(const std::string& directory, std::int64_t limit, const std::string& digest,
            const InUse& in_use);

}  // namespace batchai::image
