// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "job/model.hpp"
#include "job/parse.hpp"

// The volumes that the command lines of `cluster create` and `job create` name.

namespace batchai::clusters {

// The names of the volumes and their mount paths below the mount root of the cluster or the job.
struct VolumeFlags {
    std::optional<std::string> file_share;
    std::string file_share_path = "afs";
    std::optional<std::string> container;
    std::string container_path = "bfs";
    std::optional<std::string> file_server;
    std::string file_server_path = "nfs";
};

// Appends the volumes of the flags to the mountVolumes of a file (null if the file has none). The
// result is JSON for a job as well, although only a cluster's record keeps it: so what a flag means
// and what a volume must be have one place each, here and in the table of a job file's fields. File
// shares and containers belong to `account`, or if there is none, to the placeholder that an
// account replaces later. Checks nothing.
[[nodiscard]] base::Value with_flags(base::Value volumes, const VolumeFlags& flags,
                                     const std::optional<std::string>& account);

// Parses mountVolumes by the rules of a job file. The error describes the first fault, without its
// position.
[[nodiscard]] base::Result<job::Parsed> parse_volumes(const base::Value& volumes);

// Adds the flags' volumes to the job's. Fails if one is not valid as an entry of mountVolumes, if
// its path overlaps one of the job's, or if a share or container has no account.
[[nodiscard]] base::Result<void> add_volumes(job::JobSpec& spec, const VolumeFlags& flags,
                                             const std::optional<std::string>& account);

// The key of a storage account on its way from the user to the job's secrets. Neither other users
// nor the processes that this program starts may see it.

// Removes AZURE_BATCHAI_STORAGE_KEY from this process's environment, which child processes inherit,
// and overwrites the value of --storage-account-key in the argument vector, which every user can
// read with ps. Must be called before anything else, after the arguments have been copied.
void hide_storage_key(int count, char** words);

// Returns the value that AZURE_BATCHAI_STORAGE_KEY had; nothing if it was empty or not set.
[[nodiscard]] std::optional<std::string> storage_key_of_environment();

// Returns the key that the value of --storage-account-key gives: the value itself, or the first
// line of a file for "@FILE".
[[nodiscard]] base::Result<std::string> storage_key_of_option(const std::string& value);

}  // namespace batchai::clusters
