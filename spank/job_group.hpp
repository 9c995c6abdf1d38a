// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Where the helpers of a job run if Slurm uses control groups of version 2.
//
// slurmstepd starts batchai-node, and with it the processes that hold the job's container, in the
// group of the step, whose processes Slurm kills when the step ends. Other steps may still use the
// container, and what was written may still have to reach remote storage. So batchai-node is put
// into a group beside those of the steps, where the limits and the devices of the job apply. In
// slurmstepd.scope there are then:
//
// - job_7: processes cannot be in it, because its subgroups have limits of their own
// - job_7/step_0/slurm: slurmstepd of step 0
// - job_7/batchai: the helpers of all steps
//
// Slurm leaves the job's group if it is not empty, and does not come back to it, so it is removed
// here once the helpers have gone. Each group is noted before it is made, in root's own directory
// beside the notes of jobs, so that it is found also if slurmstepd is killed. With version 1,
// slurmstepd is in no group that Slurm kills.
namespace batchai::spank {

// Returns the group of the helpers, as the kernel calls it, for a slurmstepd whose
// /proc/self/cgroup is `text`. It is empty if Slurm does not use version 2.
[[nodiscard]] std::string helper_group_in(std::string_view text);

// Returns where a group of version 2 may be in the file system, by the text of
// /proc/self/mountinfo.
[[nodiscard]] std::vector<std::string> places_of_group(std::string_view mountinfo,
                                                       std::string_view group);

// What a process needs to enter the group. Everything is a path; all are empty without version 2.
struct JobGroup {
    std::string path;
    std::string procs;  // its cgroup.procs
    std::string note;   // of the group, in root's directory
};

// Returns the group of the helpers of this slurmstepd's job.
[[nodiscard]] JobGroup helper_group(const std::string& directory, std::uint32_t job_id);

// Notes the group, makes it if it is missing, and puts this process into it. Needs root. Returns
// false, with errno, on failure. Async-signal-safe.
[[nodiscard]] bool enter_group(const JobGroup& group);

// At the end of a step, as root: removes the group if no process is in it, so that Slurm can remove
// the job's.
void leave_group(const JobGroup& group);

// Called at the beginning of a job's epilog: what is in its groups has a day from now on to end.
void note_end_of_groups(const std::string& directory, std::uint32_t job_id);

// Called at the end of each epilog: removes the groups that are noted and empty, together with
// those of their jobs, and kills what is left of a job that ended a day ago. Those of jobs that
// still run here are left. Waits 200 ms at most.
void remove_left_groups(const std::string& directory);

}  // namespace batchai::spank
