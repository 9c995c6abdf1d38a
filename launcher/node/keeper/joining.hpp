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

// A connection to a running keeper of the same user, and handles of the container's namespaces.
struct Connection {
    base::FileDescriptor socket;  // the container stays as long as this is open
    pid_t keeper = -1;
    base::FileDescriptor outer;
    base::FileDescriptor mounts;
    base::FileDescriptor ranks;
};

// Takes the lock of the container's directory. A process holds it while it connects to the keeper
// or starts one, and the keeper holds it while it ends. Closing the descriptor releases the lock.
[[nodiscard]] base::Result<base::FileDescriptor> lock_place(const base::Root& place,
                                                            std::chrono::seconds deadline);

// Connects to the keeper, or returns nothing if there is none. The kernel confirms that the keeper
// is a running process of this user (SO_PEERCRED), and that the handles which it sends are
// namespaces of this user (NS_GET_OWNER_UID).
[[nodiscard]] base::Result<std::optional<Connection>> connect_to_keeper(const base::Root& place);

enum class Identity { user, root };

// Leaves the container. If this was the last connection, the keeper then waits until remote storage
// has what the job wrote. Returns false if that takes longer than `at_most`. The keeper belongs to
// no step and goes on alone.
bool leave(const Connection& connection, std::chrono::seconds at_most);

// Moves this process, which must be single-threaded, into the container.
[[nodiscard]] base::Result<void> enter(const Connection& connection, Identity identity);

}  // namespace batchai::node
