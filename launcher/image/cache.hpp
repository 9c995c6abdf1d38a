// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "site/site.hpp"

namespace batchai::image {

// Where imported images are.
struct Places {
    std::string own;         // absolute; the user's
    std::string shared;      // may be empty
    int shared_owner = 0;    // user id of who fills it, besides root
    std::int64_t limit = 0;  // bytes in `own`; 0: none
};

// `batchai_home` is the directory of the user's records.
[[nodiscard]] Places places_of(const site::Site& site, const std::string& batchai_home,
                               const std::string& user_name);

// Imported images as files of one directory:
//
//   <64 digits>.squashfs    the root file system of the image with that digest; appears whole, by
//                           one rename, and never changes. Its time of change is that of last use
//   <64 digits>.json        its name, for people; may be missing
//   .import/                imports under way, see lease.hpp and import.hpp
//
// Readers take no lock. A directory or file is believed only when it belongs to the user, to root
// or, in the shared directory, to who fills that by site.lua, and when nobody else can write to it.
// The user's own images are of mode 0400: what is in them may be nobody else's business.

struct Entry {
    std::string digest;  // "sha256:…"
    std::string image;   // a name that it was imported under; empty when that is not known
    std::string path;
    std::int64_t bytes = 0;
    base::Time last_used;
    bool shared = false;
    bool operator==(const Entry&) const = default;
};

// The digests of the images that jobs which have not ended run in, or will.
using InUse = std::function<std::set<std::string>()>;

[[nodiscard]] std::string entry_path(const std::string& directory, const std::string& digest);

// Nobody but the user and root: see plan::Container::root_owner.
inline constexpr int nobody_else = -1;

// Refuses a directory that others than the user, root and `owner` could have put something into,
// with its name and what to do.
[[nodiscard]] base::Result<void> check_cache_directory(const std::string& directory,
                                                       int owner = nobody_else);

// The same, and makes it with mode 0700 when it is not there; the one above it must be, unless
// `parents`.
[[nodiscard]] base::Result<void> make_cache_directory(const std::string& directory,
                                                      int owner = nobody_else);

// Whether the file is there; an error when it is, but cannot be trusted.
[[nodiscard]] base::Result<bool> is_there(const std::string& path, int owner = nobody_else);

// Takes everybody else's right to read an image of the user's own, which older releases gave; best
// effort.
void keep_private(const std::string& path);

// Notes that it was used just now; best effort.
void note_use(const std::string& path);

struct Root {
    std::string path;
    int owner = nobody_else;
    bool operator==(const Root&) const = default;
};

// Where the image's root is, or will be: in the shared directory if it is there, else the user's.
[[nodiscard]] base::Result<Root> choose_root(const Places& places, const std::string& digest);

// By last use, the newest first; none where there is no directory.
[[nodiscard]] base::Result<std::vector<Entry>> entries(const std::string& directory, bool shared,
                                                       int owner = nobody_else);

// Both directories.
[[nodiscard]] base::Result<std::vector<Entry>> all_entries(const Places& places);

[[nodiscard]] base::Result<void> remove_entry(const Entry& entry);

// Which entries have to go so that what is left has at most `limit` bytes: those that were not used
// for longest, and none of `keep`. All that may go, if that is not enough.
[[nodiscard]] std::vector<Entry> surplus(std::vector<Entry> entries, std::int64_t limit,
                                         const std::set<std::string>& keep);

// Removes the surplus of `directory`, but neither `digest` nor what is in use; asks for that only
// when something has to go. What cannot be removed stays.
void shrink(const std::string& directory, std::int64_t limit, const std::string& digest,
            const InUse& in_use);

}  // namespace batchai::image
