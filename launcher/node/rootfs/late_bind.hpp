// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.hpp"
#include "node/keeper/joining.hpp"
#include "node/rootfs/host_tree.hpp"

namespace batchai::node {

// Shows a directory of the node in a container that lives already, for all who are in it and until
// it ends. The caller, which must have one thread, holds the lock of the container's place, and is
// in the node's mount namespace. Nothing happens where the container shows that very directory.
[[nodiscard]] base::Result<void> show_in_container(const Connection& connection, const Bind& bind);

}  // namespace batchai::node
