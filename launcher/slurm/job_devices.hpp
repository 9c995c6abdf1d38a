// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace batchai::slurm {

// By the name of a generic resource ("gpu"): the indices of its devices on one node, in the order
// of gres.conf, each once and in order. Resources without device files have none.
using DeviceIndices = std::map<std::string, std::vector<int>, std::less<>>;

// By the name of the node.
using JobDevices = std::map<std::string, DeviceIndices, std::less<>>;

// What `scontrol --details show job` says of one job.
[[nodiscard]] base::Result<JobDevices> parse_job_devices(std::string_view text);

}  // namespace batchai::slurm
