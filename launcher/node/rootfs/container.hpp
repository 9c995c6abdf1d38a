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
    std::vector<plan::Variable> set;  // in order; the last value of a name wins
    std::vector<std::string> unset;
};

// Returns the changes to the environment that Slurm brings from the submitting host, for a task in
// a container. The image's variables override the host's, those of the devices override the
// image's, and the job's (from site.lua, then job.json, then secrets) override all others.
// Variables that point programs to files of the host are removed, unless the image, the devices or
// the job set them.
[[nodiscard]] TaskEnvironment container_environment(const plan::Container& container,
                                                    const std::vector<plan::Variable>& devices,
                                                    const std::vector<plan::Variable>& job);

struct ContainerRequest {
    const plan::Plan& plan;  // has a container
    std::string job_id;      // Slurm's job id
    NodePlaces places;
    const CdiFiles& device_files;
};

struct Joined {
    Connection connection;
    DeviceEdits devices;  // the devices in the container
};

// Connects to the job's container on this node. If none is running, makes one over the writable
// layer that the job's earlier steps have left.
[[nodiscard]] base::Result<Joined> join_container(const ContainerRequest& request,
                                                  const Trace& trace);

// Returns the name of the container's private directory below the node root. Each plan of a Slurm
// job has a directory of its own, because a different job file or image means different mounts and
// a different root file system.
[[nodiscard]] std::string container_place(const std::string& job_id,
                                          const plan::Directories& directories);

}  // namespace batchai::node
