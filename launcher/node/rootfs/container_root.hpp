// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/devices/cdi.hpp"
#include "node/namespace/accounts.hpp"
#include "node/rootfs/binds.hpp"
#include "node/rootfs/image_layers.hpp"
#include "node/trace.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Facts from the node's /etc for the container's, read before the process changes its root and
// user.
struct NodeFiles {
    Account account;
    std::string hosts;
    std::string name_servers;  // resolv.conf
};

[[nodiscard]] NodeFiles read_node_files();

struct RootRequest {
    const plan::Plan& plan;  // has a container
    const NodePlaces& places;
    const NodeFiles& files;
    const DeviceEdits& devices;
    const std::string& job_id;
    bool one_id = true;  // the user namespace maps one id only
};

// Makes the container's root file system in `place` and changes this process' root to it. The
// process has user and mount namespaces of its own, with the job's volumes mounted.
[[nodiscard]] base::Result<std::vector<FuseServer>> change_to_container_root(
    const RootRequest& request, const Root& place, const Trace& trace);

}  // namespace batchai::node
