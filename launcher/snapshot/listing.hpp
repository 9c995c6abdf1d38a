// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "snapshot/git.hpp"

// The copy of a program's directory, which is made when a job is submitted. This header lists its
// files. The other parts are:
//
//   git.hpp   what git says about the directory
//   copy.hpp  copies what is listed
namespace batchai::snapshot {

enum class Kind : std::uint8_t { file, directory, link };

struct Entry {
    std::string path;  // relative to the directory
    Kind kind = Kind::file;
    std::int64_t bytes = 0;
    std::string target{};  // of a link
};

// What a snapshot of a directory would have.
struct Listing {
    std::vector<Entry> entries;  // a directory before what is in it
    std::int64_t files = 0;      // with links, without directories
    std::int64_t bytes = 0;
    std::vector<std::string> not_frozen;  // links that lead out of the directory
    std::vector<std::string> left_out;    // sockets, pipes and devices
    std::optional<Repository> repository;
    // Why git could not be asked about the directory or about repositories in it, whose files are
    // all taken; empty if it could.
    std::vector<std::string> why_no_repository;
};

// Lists the directory of the plan's snapshot: in a work tree of git what git does not ignore, else
// everything; always without ".git" and what `exclude` names. `private_files` are absolute paths of
// files that are left out, because they hold secrets of the job. Fails if there are more bytes or
// files than the plan allows, and then names the largest parts; and if a relative link leads out of
// the directory.
[[nodiscard]] base::Result<Listing> list(const plan::Snapshot& snapshot,
                                         const std::vector<std::string>& private_files);

// Returns whether a pattern matches the path of a file or directory. A pattern with a slash, other
// than at its end, is compared with the whole path; any other with the last name of the path. With
// a slash at its end it matches only directories. "*" also stands for slashes.
[[nodiscard]] bool matches(std::string_view pattern, const std::string& path, bool is_directory);

// Returns whether a relative link at `path` leads to something below the directory.
[[nodiscard]] bool stays_inside(std::string_view path, std::string_view target);

}  // namespace batchai::snapshot
