// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "plan/plan.hpp"

// What rclone is told, and what it says. The storage is the remote "volume" of each call, described
// by environment variables: nothing of it is in a file, and a credential is in no argument.
namespace batchai::node {

// The descriptor under which rclone finds the mounted FUSE device.
inline constexpr int rclone_fuse_descriptor = 3;

// argv of the rclone that serves a mount, in the foreground.
[[nodiscard]] base::Arguments serve_arguments(const plan::Mount& mount, const std::string& cache);

// The whole environment of any rclone for this storage. Reads the credential, and calls rclone to
// encode it where the backend wants that.
[[nodiscard]] base::Result<base::Environment> rclone_environment(const plan::RemoteVolume& remote,
                                                                 const std::string& job_directory);

// The same from a credential as the backend wants it.
[[nodiscard]] base::Environment remote_environment(const plan::RemoteVolume& remote,
                                                   const std::string& credential);

// Copies files below `source` (all, when none is named) to `directory` below the volume's top.
[[nodiscard]] base::Result<void> copy_to_volume(const base::Environment& environment,
                                                const plan::RemoteVolume& remote,
                                                const std::string& source,
                                                const std::string& directory,
                                                const std::vector<std::string>& files,
                                                std::chrono::seconds deadline);

// The last error in rclone's log, or its last line; empty for an empty log.
[[nodiscard]] std::string complaint_of(std::string_view log);

// What the user or the admin can do about it; may be empty.
[[nodiscard]] std::string advice_on(std::string_view complaint);

}  // namespace batchai::node
