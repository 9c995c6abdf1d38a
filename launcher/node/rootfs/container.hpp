// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/devices/cdi.hpp"
#include "node/keeper/joining.hpp"
#include "node/reply.hpp"
#include "node/rootfs/mounts.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

struct TaskEnvironment {
    std::vector<plan::Variable> set;  // in order: the last one of a name wins
    std::vector<std::string> unset;
};

// Changes the environment that Slurm brings from the submitting host for a task in a container. The
// image's variables win over the host's, those of the devices over the image's, and the job's (of
// site.lua, then job.json, then secrets) over all. Variables that lead programs to files of the
// host are removed, unless the image or the job sets them.
[[nodiscard]] TaskEnvironment container_environment(const plan::Container& container,
                                                    const std::vector<plan::Variable>& devices,
                                                    const std::vector<plan::Variable>& job);

struct ContainerRequest {
    const plan::Plan& plan;  // has a container
    std::string job_id;      // Slurm's
    NodePlaces places;
    const CdiFiles& device_files;
};

struct Joined {
    Connection connection;
    DeviceEdits devices;  // those in the container
};

// The container of the job on this node: the living one, or a new one over the writable layer that
// the job's earlier steps left.
[[nodiscard]] base::Result<Joined> join_container(const ContainerRequest& request,
                                                  const Trace& trace);

// The name of the container's private directory below the node root. Each plan of a Slurm job has
// one of its own, since another job file or image means other mounts and another root.
[[nodiscard]] std::string container_place(const std::string& job_id,
                                          const plan::Directories& directories);

}  // namespace batchai::node
