// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/reply.hpp"
#include "node/volumes/steward.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

[[nodiscard]] bool has_remote_mounts(const plan::Plan& plan);

// The mounted volumes of one sandbox.
class Volumes {
  public:
    // Makes the mount roots, and the plan's mounts below them, in this process's own mount
    // namespace. The process must own its user namespace and be single-threaded. Checks all mounts
    // at the same time, each within its own deadline. The first failure that is found is the error:
    // it says which mount failed, where and why, and it is also written to a failure note for the
    // job's record.
    [[nodiscard]] static base::Result<Volumes> mount(const plan::Plan& plan,
                                                     const base::Root& node_root,
                                                     const std::string& job_id, const Trace& trace);

    // Must be called when no task uses the mounts any more (see Steward::finish). Without this
    // call, the rclone processes end as soon as this object is destroyed.
    bool finish(std::optional<std::chrono::seconds> at_most = {}) {
        return steward_.finish(at_most);
    }

  private:
    Steward steward_;
};

// Waits until earlier steps have stored what they wrote, because this step must see it. Does not
// wait so long that the start of this step would fail.
void wait_for_earlier_steps(const plan::Plan& plan, const std::string& slurm_job_id,
                            const Trace& trace);

// Copies the files in `source` to `job_path`, a directory on a remote volume as the job sees it.
[[nodiscard]] base::Result<void> store_on_volume(const plan::Plan& plan, const std::string& source,
                                                 const std::string& job_path);

}  // namespace batchai::node
