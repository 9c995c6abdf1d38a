// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "node/keeper/joining.hpp"
#include "node/rendezvous.hpp"
#include "node/volumes/volumes.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

struct SandboxRequest {
    std::string plan_path;    // absolute
    std::string plan_digest;  // SHA-256 of the file, in hexadecimal
    std::string job_id;       // Slurm's
    // Names the step among all of the plan, when its ranks need a place to meet; else empty.
    std::string rendezvous_step;
    int node = 0;  // of this node, among those of the step
    int nodes = 1;
    // In a container: root inside, as for preparation; else as the plan says.
    bool as_root = false;
    std::string array_task;        // SLURM_ARRAY_TASK_ID of the job; empty: it is no array job
    std::string submit_directory;  // from where srun was called; empty: not known
    std::string slurm_conf;        // the file that slurmd uses; empty: the usual one
};

struct Sandbox {
    std::vector<plan::Variable> environment;  // of the job's processes, secrets included
    std::vector<std::string> unset;           // names that they must not have
    // Where a task starts; empty: where Slurm puts it.
    std::string working_directory;
    // The task is root and has no other id: calls that change ids or owners are to be answered with
    // success.
    bool one_id = false;
    // To the keeper of the job's container, which stays as long as this is open.
    std::optional<Connection> container;
    // Without a container: the job's mounts, to be finished when the step is over. In a container
    // they are the keeper's.
    std::optional<Volumes> volumes;
    // Where the ranks meet; to be kept as long as the step runs. None when it was not asked for, or
    // could not be had: few programs need it, so that is only in the trace.
    std::optional<Rendezvous> rendezvous;
};

// Reads the plan, moves this process to namespaces of its own and makes the job's directories and
// mounts there. Runs as the user.
[[nodiscard]] base::Result<Sandbox> make_sandbox(const SandboxRequest& request);

}  // namespace batchai::node
