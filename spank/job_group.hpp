// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Where the helpers of a job run if Slurm uses control groups of version 2.
//
// slurmstepd starts batchai-node, and with it the processes that hold the job's container, in the
// group of the step, whose processes Slurm kills when the step ends. Other steps may still use the
// container, and what was written may still have to reach remote storage. So batchai-node is put
// into a group beside those of the steps, below the job's, where the job's limits and devices
// apply:
//
//   slurmstepd.scope/job_7              processes cannot be in it, because its subgroups have
//   limits slurmstepd.scope/job_7/step_0/slurm slurmstepd of step 0 slurmstepd.scope/job_7/batchai
//   the helpers of all steps
//
// Slurm leaves the job's group if it is not empty, and does not come back to it, so it is removed
// here once the helpers have gone. With version 1, slurmstepd is in no group that Slurm kills.
namespace batchai::spank {

// Returns the group of the helpers, as a path below the mount point, for a slurmstepd whose
// /proc/self/cgroup is `text`. It is empty if Slurm does not use version 2.
[[nodiscard]] std::string helper_group_in(std::string_view text);

// The same for this process, as a path in the file system.
[[nodiscard]] std::string helper_group();

// Makes the group if it is missing, and puts this process into it. Needs root. `procs` is the path
// of the group's cgroup.procs. Returns false, with errno, on failure. Async-signal-safe.
[[nodiscard]] bool enter_group(const char* group, const char* procs);

// At the end of a step, as root: removes the group if no process is in it, so that Slurm can remove
// the job's. Otherwise it is noted in root's own directory, beside the note of the job.
void leave_group(const std::string& group, const std::string& directory, std::uint32_t job_id);

// At the end of a job, as root: removes the groups that were noted and have become empty, together
// with those of their jobs. Those of jobs that still run here are left.
void remove_left_groups(const std::string& directory);

}  // namespace batchai::spank
