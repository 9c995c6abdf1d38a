// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "base/error.hpp"
#include "node/rootfs/host_tree.hpp"

namespace batchai::node {

// The node's devices that every container has: those that programs cannot do without, and those of
// the InfiniBand network and of memory shared between ranks (knem, xpmem).
[[nodiscard]] std::vector<Bind> common_devices();

// /dev of the container: a file system of its own with the links that programs expect.
[[nodiscard]] base::Result<void> make_device_directory(const Root& root);

}  // namespace batchai::node
