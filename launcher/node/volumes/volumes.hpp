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
    // Makes the plan's mounts below the mount roots, which are made first, in this process' own
    // mount namespace; it must own its user namespace and have one thread. All at once, each within
    // its deadline. The first that fails, in the plan's order, is the error: it says which, where
    // and why, and is noted for the job's record.
    [[nodiscard]] static base::Result<Volumes> mount(const plan::Plan& plan,
                                                     const base::Root& node_root,
                                                     const std::string& job_id, const Trace& trace);

    // When no task uses them any more: see Steward::finish. Without it the programs end at once,
    // when this object does.
    bool finish(std::optional<std::chrono::seconds> at_most = {}) {
        return steward_.finish(at_most);
    }

  private:
    Steward steward_;
};

// A step that is over may still be storing what it wrote, which the next one is to see: waits for
// that, but not so long that this step's own start would fail.
void wait_for_earlier_steps(const plan::Plan& plan, const std::string& slurm_job_id,
                            const Trace& trace);

// Copies the files in `source` to a directory as the job sees it, which is on a remote volume.
[[nodiscard]] base::Result<void> store_on_volume(const plan::Plan& plan, const std::string& source,
                                                 const std::string& job_path);

}  // namespace batchai::node
