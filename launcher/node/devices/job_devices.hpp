// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "node/devices/cdi.hpp"
#include "node/reply.hpp"
#include "slurm/job_devices.hpp"

namespace batchai::node {

// Whether the file names several devices by their index, so that a job may have some of them only.
[[nodiscard]] bool has_choice(const CdiSpec& spec);

struct ChosenDevices {
    DeviceEdits edits;
    std::vector<std::string> remarks;
};

// The devices of all files that a job gets. Where Slurm gave it some of a generic resource with the
// name of the file's class ("gpu" for nvidia.com/gpu): those with the same indices, by the number
// of their device file (/dev/nvidia0) or by their names ("0", "1" … or "gpu0", "gpu1" …). Else all:
// the device "all" if there is one, or each.
[[nodiscard]] ChosenDevices choose_devices(const std::vector<CdiSpec>& specs,
                                           const slurm::DeviceIndices& of_job);

// What the job gets of the node's CDI files. A container is shared by the steps of the job, so
// these are the job's devices on this node. Slurm is asked for them by the first step, and only
// where there is a choice; later steps read the answer in the job's private directory `place`.
[[nodiscard]] DeviceEdits devices_of_job(const CdiFiles& files, const base::Root& place,
                                         const std::string& job_id, const Trace& trace);

// The answer as it is kept: "gpu 0 2", a line for each resource.
[[nodiscard]] std::string to_text(const slurm::DeviceIndices& devices);
[[nodiscard]] slurm::DeviceIndices device_indices(std::string_view text);

}  // namespace batchai::node
