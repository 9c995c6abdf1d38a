// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"

namespace batchai::admin {

// What the installation on this host uses, and where that comes from: a file, perhaps with a line,
// a variable, "built in", or "default".
struct InstalledSetting {
    std::string key;  // "site.node_directory"
    base::Value value;
    std::string origin;
};

// Reads site.lua, slurm.conf and plugstack.conf of this host. It is an error if site.lua has a
// fault. Without slurm.conf, or if plugstack.conf cannot be read, what it would say is left out.
[[nodiscard]] base::Result<std::vector<InstalledSetting>> installed_settings();

}  // namespace batchai::admin
