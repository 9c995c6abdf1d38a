// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "node/devices/cdi.hpp"
#include "slurm/job_devices.hpp"

namespace batchai::node {

// Whether it makes a difference which of the devices a job has: it names several by their index.
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

}  // namespace batchai::node
