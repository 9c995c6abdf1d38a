// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "node/trace.hpp"
#include "node/volumes/cache.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Remote storage that is about to be mounted.
struct RemoteMount {
    const plan::Mount* mount;  // has a RemoteVolume
    base::Environment environment;
    CacheSlot slot;
    base::FileDescriptor device;  // FUSE
};

// The process that looks after the remote storage of a sandbox: parent of the rclone programs that
// show it. It keeps the node's own view of the file system, whatever root and mounts the sandbox
// gets, and dies with the process that started it, and rclone with it. It is not stopped by
// SIGTERM: what the job has written is still to be saved when the job is cancelled.
class Steward {
  public:
    Steward() = default;
    Steward(Steward&& other) noexcept;
    Steward& operator=(Steward&& other) noexcept;
    Steward(const Steward&) = delete;
    Steward& operator=(const Steward&) = delete;
    ~Steward();

    // Made before anything is mounted, so that its view has none of the mounts.
    [[nodiscard]] static base::Result<Steward> start(const std::vector<RemoteMount>& mounts,
                                                     const std::string& job_directory);
    // Once all are mounted: starts rclone for each.
    void serve();
    // Waits until the storage has all that was written, at most as long as the plan says, or as
    // `at_most` says if that is shorter, and ends rclone. What is missing then is in the log and in
    // a failure note.
    void finish(std::optional<std::chrono::seconds> at_most = {});

  private:
    Steward(pid_t process, base::FileDescriptor control, int patience_seconds)
        : process_(process), control_(std::move(control)), patience_seconds_(patience_seconds) {}
    void kill_now();

    pid_t process_ = -1;
    base::FileDescriptor control_;
    int patience_seconds_ = 0;
};

}  // namespace batchai::node
