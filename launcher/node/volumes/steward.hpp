// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "node/reply.hpp"
#include "node/volumes/rclone.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Remote storage that is about to be mounted.
struct RemoteMount {
    const plan::Mount* mount;  // has a RemoteVolume
    base::Environment environment;
    CacheSlot slot;
    base::FileDescriptor device;  // the opened FUSE device
};

// The steward is the process that looks after the remote storage of a sandbox. It is the parent of
// the rclone processes that serve the mounts, and they die with it. It keeps the node's own view of
// the file system, whatever root and mounts the sandbox gets. It is detached and belongs to no
// step. The end of a step must not take long, so the steward then goes on alone until the storage
// has what the job wrote, but at most as long as the plan allows. It does so whether it was told of
// the end or the process that started it was killed. Until it ends, a storage note in the job's
// directory reports it.
class Steward {
  public:
    Steward() = default;
    Steward(Steward&&) = default;
    Steward& operator=(Steward&& other) noexcept;
    Steward(const Steward&) = delete;
    Steward& operator=(const Steward&) = delete;
    // Unless the steward was told to finish, it is told to give up, because its mounts will not be
    // used.
    ~Steward();

    // Must be called before anything is mounted, so that the steward's view has none of the mounts.
    [[nodiscard]] static base::Result<Steward> start(const std::vector<RemoteMount>& mounts,
                                                     const std::string& job_directory,
                                                     const std::string& slurm_job_id);
    // Makes the steward start rclone for each mount. Called once all are mounted.
    void serve();
    // Tells the steward to store what is not stored yet, and to end. Waits for that at most as long
    // as the plan allows, or for `at_most` if that is shorter, and returns false if the steward has
    // not ended by then. Files that could not be stored are reported in the log and in a failure
    // note.
    bool finish(std::optional<std::chrono::seconds> at_most = {});

  private:
    Steward(base::FileDescriptor control, base::FileDescriptor end, int patience_seconds)
        : control_(std::move(control)), end_(std::move(end)), patience_seconds_(patience_seconds) {}
    void give_up();
    [[nodiscard]] bool ends_within(std::chrono::seconds patience) const;

    base::FileDescriptor control_;
    base::FileDescriptor end_;  // reaches its end when the process ends
    int patience_seconds_ = 0;
};

}  // namespace batchai::node
