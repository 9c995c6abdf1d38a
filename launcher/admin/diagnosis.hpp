// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "record/job_files.hpp"

// What somebody needs who is to find out why a job did not work, without its secrets.
namespace batchai::admin {

struct Diagnosis {
    // Contents by relative path. Nothing of it is masked yet.
    std::map<std::string, std::string> files;
    // The sizes of those files of which only the end is in `files`, which may begin inside a
    // secret.
    std::map<std::string, std::size_t> cut;
    // What could not be had, one sentence each.
    std::vector<std::string> missing;
};

// A longer file is represented by its end.
inline constexpr std::size_t diagnosis_file_limit = 1UL << 20U;
inline constexpr std::size_t diagnosis_total_limit = 64UL << 20U;

// Adds the job's records and logs of its nodes and ranks, but not its secrets, its commits, and
// what its program has written. Follows no link.
void add_job_files(Diagnosis& diagnosis, const record::JobFiles& files);

// Returns the secrets that were submitted with the job; an error if there are some that cannot be
// read, since nothing could then be masked.
[[nodiscard]] base::Result<std::vector<std::string>> secrets_of(const record::JobFiles& files);

// Masks all files and writes them to a new gzipped tar archive of mode 0600, below the directory
// `name` in it. Refuses a path that exists. `scratch` is a directory of the caller's own.
[[nodiscard]] base::Result<void> write_archive(const Diagnosis& diagnosis,
                                               const std::vector<std::string>& secrets,
                                               const std::string& scratch, const std::string& name,
                                               const std::string& path);

}  // namespace batchai::admin
