// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "node/bundle/inject_choice.hpp"

namespace batchai::node {

// The node's installation of mpi_bridge, beside this program's own, and the libraries that its
// loader takes for it. Paths are the node's.
struct NodeInstallation {
    std::string library;          // libmpi_bridge.so.0
    std::string wire_up;          // mpi_bridge_wireup
    std::string python;           // the directory of the packages
    std::string ucx_modules;      // of libucs, a directory; empty: it has none
    std::string pmix_prefix;      // where libpmix was installed
    std::string pmix_components;  // of libpmix, a directory below that; empty: it has none
    NodeObjects objects;
};

[[nodiscard]] base::Result<NodeInstallation> find_node_installation();

}  // namespace batchai::node
