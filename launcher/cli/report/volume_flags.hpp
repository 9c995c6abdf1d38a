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

}  // namespace batchai::cli
