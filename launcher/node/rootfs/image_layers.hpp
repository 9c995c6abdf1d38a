// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/rootfs/fuse_server.hpp"
#include "node/trace.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// The image with a writable layer over it. Lives as long as this object's process.
struct ImageLayers {
    Root root;  // where both are seen as one
    std::vector<FuseServer> servers;
};

// Makes them in `place`, which keeps the writable layer for the job's next step, in this process'
// own user and mount namespaces. Leaves the working directory in `place`.
[[nodiscard]] base::Result<ImageLayers> mount_image_layers(const plan::Container& container,
                                                           const Root& place, const Trace& trace);

}  // namespace batchai::node
