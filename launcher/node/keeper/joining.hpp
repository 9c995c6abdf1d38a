// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "node/keeper/keeper.hpp"

namespace batchai::node {

// A connection to a living keeper of the same user, and the namespaces that it gave.
struct Connection {
    base::FileDescriptor socket;  // the container stays as long as this is open
    pid_t keeper = -1;
    base::FileDescriptor outer;
    base::FileDescriptor mounts;
    base::FileDescriptor ranks;
};

// Held while somebody connects to the keeper, starts one, or it ends. Released with its descriptor.
[[nodiscard]] base::Result<base::FileDescriptor> lock_place(const base::Root& place,
                                                            std::chrono::seconds deadline);

// Nothing when no keeper is there. That it is a process of this user, and alive, is what the kernel
// says of the connection; that what it gives are namespaces of this user, what it says of those.
[[nodiscard]] base::Result<std::optional<Connection>> connect_to_keeper(const base::Root& place);

enum class Identity { user, root };

// Leaves the container. If this was the last connection, the keeper then waits until remote storage
// has what the job wrote. That may take longer than `at_most`: then false, and the keeper, which
// belongs to no step, does it alone.
bool leave(const Connection& connection, std::chrono::seconds at_most);

// Moves this process, which must have one thread, into the container.
[[nodiscard]] base::Result<void> enter(const Connection& connection, Identity identity);

}  // namespace batchai::node
