// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "node/container/host_tree.hpp"
#include "plan/plan.hpp"

// Container Device Interface: files in which a vendor says what a container needs of the node for
// its devices (https://github.com/cncf-tags/container-device-interface, SPEC.md).
namespace batchai::node {

// What of the node a container gets for its devices.
struct DeviceEdits {
    std::vector<Bind> nodes;   // device files
    std::vector<Bind> mounts;  // libraries, programs, sockets
    std::vector<plan::Variable> environment;

    bool operator==(const DeviceEdits&) const = default;
};

// The edits of one file, for all of its devices: those of the device "all" if there is one, else
// those of each, and those for any. The fault, without the file's name, when it is malformed.
[[nodiscard]] base::Result<DeviceEdits> parse_cdi(std::string_view text);

struct NodeDevices {
    DeviceEdits edits;
    std::vector<std::string> remarks;  // on files that are passed over
};

// Of all files in the directories, in the order of their names; a name in a later directory takes
// the place of the same in an earlier one. A directory that is missing has none.
[[nodiscard]] base::Result<NodeDevices> read_cdi(const std::vector<std::string>& directories = {
                                                     "/etc/cdi", "/var/run/cdi"});

}  // namespace batchai::node
