// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "cli/output/value.hpp"
#include "job/model.hpp"
#include "job/parse.hpp"

// Volumes that are named on the command line, of `cluster create` and of `job create`.

namespace batchai::cli {

// Names, and where to mount them: below the cluster's mount root, or the job's.
struct VolumeFlags {
    std::optional<std::string> file_share;
    std::string file_share_path = "afs";
    std::optional<std::string> container;
    std::string container_path = "bfs";
    std::optional<std::string> file_server;
    std::string file_server_path = "nfs";
};

// The mountVolumes of a file (null: none) with those of the flags after them. Share and container
// are of `account`, or of the account that replaces its placeholder later. Checks nothing.
[[nodiscard]] Value with_flags(Value volumes, const VolumeFlags& flags,
                               const std::optional<std::string>& account);

// Reads mountVolumes as a job's are read. The first fault is the error's text, without a place.
[[nodiscard]] base::Result<job::Parsed> parse_volumes(const Value& volumes);

// Adds the flags' volumes to the job's. Fails when one is not what mountVolumes could have, or when
// a share or container has no account.
[[nodiscard]] base::Result<void> add_volumes(job::JobSpec& spec, const VolumeFlags& flags,
                                             const std::optional<std::string>& account);

// The key of a storage account on its way from the user to the job's secrets. No process that we
// start, and no other user, is to see it.

// Takes AZURE_BATCHAI_STORAGE_KEY out of this process's environment, which everything that we start
// inherits, and overwrites the value of --storage-account-key in the argument vector, which every
// user can read with ps. To be called first of all, after the words were copied.
void hide_storage_key(int count, char** words);

// What AZURE_BATCHAI_STORAGE_KEY said; nothing when it was empty or not set.
[[nodiscard]] std::optional<std::string> storage_key_of_environment();

// The value of --storage-account-key: the key itself, or "@FILE" for the first line of a file.
[[nodiscard]] base::Result<std::string> storage_key_of_option(const std::string& value);

}  // namespace batchai::cli
