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
    base::FileDescriptor device;  // FUSE
};

// The process that looks after the remote storage of a sandbox: parent of the rclone programs that
// show it. It keeps the node's own view of the file system, whatever root and mounts the sandbox
// gets, and rclone dies with it. It is nobody's child, so that it is in no step: at a step's end,
// which must not take long, it goes on alone until the storage has what the job wrote, at most as
// long as the plan says. That is so whether it was told of the end, or its starter was killed.
// Until then a storage note in the job's directory tells of it.
class Steward {
  public:
    Steward() = default;
    Steward(Steward&&) = default;
    Steward& operator=(Steward&& other) noexcept;
    Steward(const Steward&) = delete;
    Steward& operator=(const Steward&) = delete;
    // One that was not told to finish gives up: what was made is not used.
    ~Steward();

    // Made before anything is mounted, so that its view has none of the mounts.
    [[nodiscard]] static base::Result<Steward> start(const std::vector<RemoteMount>& mounts,
                                                     const std::string& job_directory,
                                                     const std::string& slurm_job_id);
    // Once all are mounted: starts rclone for each.
    void serve();
    // Tells it to store what is not stored yet, and to end. Waits for that, at most as long as the
    // plan says, or as `at_most` says if that is shorter: then false. What is missing in the end is
    // in the log and in a failure note.
    bool finish(std::optional<std::chrono::seconds> at_most = {});

  private:
    Steward(base::FileDescriptor control, base::FileDescriptor end, int patience_seconds)
        : control_(std::move(control)), end_(std::move(end)), patience_seconds_(patience_seconds) {}
    void give_up();
    [[nodiscard]] bool ends_within(std::chrono::seconds patience) const;

    base::FileDescriptor control_;
    base::FileDescriptor end_;  // comes to its end with the process
    int patience_seconds_ = 0;
};

}  // namespace batchai::node
