// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "node/keeper/joining.hpp"
#include "node/rendezvous.hpp"
#include "node/usage/sampler.hpp"
#include "node/volumes/volumes.hpp"
#include "plan/plan.hpp"
#include "record/node_steps.hpp"
#include "record/start_notes.hpp"

// What batchai-node does on each node of a step. Above all it makes the sandbox in which the step's
// tasks run, which is declared here. The parts are:
//
//   slurm_conf.hpp      what it needs of Slurm's configuration
//   node_root.hpp       the user's private directory on this node
//   secrets.hpp         reads the job's secrets
//   volumes/            mounts the job's volumes, and waits until their storage has the data
//   keeper/             the process that keeps the job's container, and what is left after it
//   namespace/          the container's user namespace, and the user's account in it
//   rootfs/             the container's root file system, mounts and environment
//   devices/            the devices of the node that the container gets
//   bundle/             libmpi_bridge with all that it needs, for the container
//   rendezvous.hpp      the port at which the ranks of a step meet
//   nccl_interface.hpp  the network interface that NCCL is told to use
//   usage/              samples of what a step uses
//   stacks/             where the processes of a job are, for `job stacks`
//   health.hpp          the site's checks of this node
//   reply.hpp           the reply to the plugin, and lines for the job's log
namespace batchai::node {

struct SandboxRequest {
    std::string plan_path;    // absolute
    std::string plan_digest;  // SHA-256 of the file, in hexadecimal
    std::string job_id;       // Slurm's job id
    // The step's name, unique within the plan, if its ranks need a rendezvous; otherwise empty.
    std::string rendezvous_step;
    // Where the ranks meet if somebody else has arranged it: an address of the step's first node.
    std::string master;
    int node = 0;  // index of this node among the nodes of the step
    int nodes = 1;
    // Run as root in the container, as preparation does. Otherwise the plan decides.
    bool as_root = false;
    std::string array_task;        // SLURM_ARRAY_TASK_ID; empty: not an array job
    std::string submit_directory;  // where srun was called; empty: unknown
    std::string slurm_conf;        // slurmd's configuration file; empty: the usual one
    std::string usage_step;        // name of the files of what the step uses; empty: none
    int slurm_step = 0;            // Slurm's number of the step
    std::string starts;            // name of the note of the tasks that start; empty: none
    std::size_t tasks = 0;         // of the step on this node, if `starts` is set
};

struct Sandbox {
    std::vector<plan::Variable> environment;  // of the job's processes, including secrets
    std::vector<std::string> unset;           // names of the variables to remove
    // The working directory of a task. Empty: Slurm chooses it.
    std::string working_directory;
    // The task is root and only one id is mapped, so calls that change ids or owners must be
    // answered with success.
    bool one_id = false;
    // The connection to the keeper of the job's container. The container stays as long as it is
    // open.
    std::optional<Connection> container;
    // The job's mounts if there is no container. Volumes::finish must be called when the step is
    // over. The mounts of a container belong to its keeper.
    std::optional<Volumes> volumes;
    // The ranks' rendezvous, which must be kept as long as the step runs. Absent if it was not
    // requested or could not be made. Few programs need it, so a failure is only written to the
    // trace.
    std::optional<Rendezvous> rendezvous;
    // Notes what the step uses, unless that is not wanted.
    std::optional<Sampler> sampler;
    // When the step has begun and ended on this node. Set as soon as the plan has been read.
    std::optional<record::NodeStepNote> note;
    // Notes which tasks have started, if that is wanted and possible.
    std::optional<record::StartNote> starts;
    // Writes to the job's log which interface NCCL is told to use, once the plugin says that it
    // does tell NCCL.
    std::function<void()> say_nccl_interface;
};

// Reads the plan, makes the job's directories and mounts, and moves this process into the
// namespaces in which the step's tasks run. Runs as the user.
[[nodiscard]] base::Result<Sandbox> make_sandbox(const SandboxRequest& request);

}  // namespace batchai::node
