// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/container/binds.hpp"
#include "node/container/cdi.hpp"
#include "node/container/joining.hpp"
#include "node/trace.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

struct ContainerRequest {
    const plan::Plan& plan;  // has a container
    std::string job_id;      // Slurm's
    NodePlaces places;
    const CdiFiles& device_files;
};

struct Joined {
    Connection connection;
    DeviceEdits devices;  // that the container has
};

// The container of the job on this node: the living one, or a new one over the writable layer that
// the job's earlier steps left.
[[nodiscard]] base::Result<Joined> join_container(const ContainerRequest& request,
                                                  const Trace& trace);

// The name of the job's private directory below the node root.
[[nodiscard]] std::string container_place(const std::string& job_id);

// Ends the job's keeper, if it lives, and with it the programs that serve its file systems; moves
// this process to a user namespace in which all files of the container can be removed. Nothing
// happens when the job has none on this node. An error when, after so much patience, one still
// waits for remote storage to have what the job wrote.
[[nodiscard]] base::Result<void> prepare_to_remove_container(const Root& node_root,
                                                             const std::string& job_id,
                                                             std::chrono::seconds patience);

// Removes what jobs left here that ended with the node (it was started anew since), or whose
// clean-up has failed. Never of another user, never of a job that may live.
void remove_leftovers(const Root& node_root, const std::string& own_job_id, const Trace& trace);

}  // namespace batchai::node
