// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/devices/cdi.hpp"
#include "node/keeper/joining.hpp"
#include "node/rootfs/binds.hpp"
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

// The name of the container's private directory below the node root. Of a Slurm job each plan has
// its own: with another job file or image come other mounts and another root.
[[nodiscard]] std::string container_place(const std::string& job_id,
                                          const plan::Directories& directories);

}  // namespace batchai::node
