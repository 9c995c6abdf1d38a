// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/options.hpp"
#include "spank/slurm.hpp"

// batchai.so, the plugin of Slurm. hooks.cpp has the functions that Slurm calls, and this header
// what two of them do. The parts are:
//
//   options.hpp           the options of users, and the arguments in plugstack.conf
//   submit_side.hpp       in sbatch, srun and salloc: hands the job file over
//   stepd.hpp             in slurmstepd: starts batchai-node for a step, and ends it
//   task.cpp              task_init, in each task: joins the sandbox
//   epilog.cpp            job_epilog: removes what a job has left
//   protocol.h            the protocol between the plugin and batchai-node
//   reply.hpp             reads the reply of batchai-node
//   child.hpp             starts programs as the user
//   rank_environment.hpp  the variables by which frameworks find the other ranks
//   gpu_environment.hpp   what a task's environment says of GPUs
//   one_id.hpp            lets calls that change ids report success where only one id is mapped
//   this_job.hpp          whose plan is in an environment
//   job_note.hpp          notes which jobs have had a sandbox or a batch script on a node
//   job_group.hpp         the control group in which the helpers of a job run
//   slurm.hpp             Slurm's header, and what differs between releases
//   plugin.map            the symbols that the plugin exports
namespace batchai::spank {

// task_init: runs in the process that becomes the user's task, as the user. Joins the sandbox and
// sets the environment. If the step asked for a sandbox that is not there, the process ends with a
// message to the user. An error code would not do: with an `optional` line in plugstack.conf, the
// task would then run on the bare host.
void join_sandbox(spank_t handle);

// job_epilog: if the job is noted on this node (see job_note.hpp), removes what it has left there,
// as the job's user. Waits a few seconds at most; batchai-node finishes longer work by itself. If
// it fails in that time, slurmd's log says so. For any other job, it starts nothing. Returns
// nothing to Slurm, because a failing epilog would drain the node.
void clean_after_job(spank_t handle, const Settings& settings);

}  // namespace batchai::spank
