// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.hpp"

namespace batchai::node {

// Moves this process, which must have one thread, to a user and a mount namespace of its own. The
// user keeps uid and gid, since PMIx compares them; mounts made outside still arrive inside, those
// made inside stay there.
[[nodiscard]] base::Result<void> enter_private_namespaces();

}  // namespace batchai::node
