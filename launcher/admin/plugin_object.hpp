// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"

namespace batchai::admin {

// Returns the number in the variable `plugin_version` of a shared object: the version of Slurm
// that it was built for, as Slurm's plugin loader compares it (0x160508 is 22.05.8). Nothing of the
// object is run. It must be a 64-bit object of this machine's byte order.
[[nodiscard]] base::Result<std::uint32_t> slurm_version_of_plugin(const std::string& path);

// Returns "22.05.8" for 0x160508.
[[nodiscard]] std::string slurm_version_text(std::uint32_t number);

}  // namespace batchai::admin
