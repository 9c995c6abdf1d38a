// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace batchai::slurm {

// The indices of the devices of each generic resource on one node, by the resource's name ("gpu").
// An index is the device's position in gres.conf. The indices are sorted, without duplicates. A
// resource without device files has none.
using DeviceIndices = std::map<std::string, std::vector<int>, std::less<>>;

// The devices of a job, by the node's name.
using JobDevices = std::map<std::string, DeviceIndices, std::less<>>;

// Reads the output of `scontrol --details show job` for one job.
[[nodiscard]] base::Result<JobDevices> parse_job_devices(std::string_view text);

}  // namespace batchai::slurm
