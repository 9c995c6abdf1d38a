// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "node/devices/cdi.hpp"
#include "node/reply.hpp"
#include "slurm/job_devices.hpp"

namespace batchai::node {

// Returns whether the file names several devices by their index, so that a job can have only some
// of them.
[[nodiscard]] bool has_choice(const CdiSpec& spec);

struct ChosenDevices {
    DeviceEdits edits;
    std::vector<std::string> remarks;
};

// Returns the devices of all files that a job gets. Slurm may have given the job some of a generic
// resource with the name of a file's class ("gpu" for nvidia.com/gpu). Then the job gets the file's
// devices with the same indices, which are found by the number of their device file (/dev/nvidia0)
// or by their names ("0", "1", … or "gpu0", "gpu1", …). Otherwise the job gets all devices: the
// device "all" if there is one, or else each of them.
[[nodiscard]] ChosenDevices choose_devices(const std::vector<CdiSpec>& specs,
                                           const slurm::DeviceIndices& of_job);

// Returns what the job gets from the node's CDI files. The steps of a job share a container, so
// these are all devices of the job on this node. The first step asks Slurm for them, but only if
// there is a choice. Later steps read the answer from the container's private directory `place`.
[[nodiscard]] DeviceEdits devices_of_job(const CdiFiles& files, const base::Root& place,
                                         const std::string& job_id, const Trace& trace);

// Converts Slurm's answer to the text that is kept, and back. The text has one line for each
// resource, such as "gpu 0 2".
[[nodiscard]] std::string to_text(const slurm::DeviceIndices& devices);
[[nodiscard]] slurm::DeviceIndices device_indices(std::string_view text);

}  // namespace batchai::node
