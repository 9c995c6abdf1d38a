// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "node/slurm_conf.hpp"

// Slurm's plugstack.conf, as plugstack.conf(5) and spank(8) describe it.
namespace batchai::admin {

// A line that loads a plugin.
struct PlugstackLine {
    std::string place;  // "FILE:LINE"
    bool required = false;
    std::string plugin;  // a path, or a name that is looked up in PluginDir
    std::vector<std::string> arguments;

    bool operator==(const PlugstackLine&) const = default;
};

struct Plugstack {
    std::vector<PlugstackLine> lines;
    // What Slurm does not understand, or cannot read: "FILE:LINE: …".
    std::vector<std::string> faults;
    std::vector<std::string> files;  // all that were read, in order
};

// Returns the path of plugstack.conf; "" if this host has no slurm.conf.
[[nodiscard]] std::string plugstack_path(const node::SlurmConf& conf);

// Reads the file and the files that it includes. It is an error if the file itself cannot be read.
// An include whose pattern matches nothing is not a fault, as in Slurm.
[[nodiscard]] base::Result<Plugstack> read_plugstack(const std::string& path);

// Returns the lines that load batchai.so, by whatever path.
[[nodiscard]] std::vector<PlugstackLine> lines_of_batchai(const Plugstack& plugstack);

}  // namespace batchai::admin
