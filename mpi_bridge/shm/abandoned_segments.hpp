// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "shm/nonce.hpp"

// Removal of the names of segments whose creator died before it could remove them.
//
// A segment needs a name only until all ranks of the node have attached, but a creator that is
// killed before then leaves the name, and the memory, in /dev/shm. So the name identifies the
// creator: by its process number, its start time (because numbers are reused) and its PID namespace
// (because numbers mean nothing in another namespace, which may share /dev/shm). A process that
// finds that the creator is gone removes the name. Ranks that had attached do this when they end,
// and so does every later creator of the same user.
//
// A file without a name (shm/memory_file.hpp) leaves nothing behind, but peers can only open it
// through /proc/PID/fd, which fails between the PID namespaces of containers that share /dev/shm,
// and handing it over by a socket fails between network namespaces as well. So it is used only
// where /dev/shm has no room.
//
// No file is opened for this: closing any descriptor of a segment that this process is attached to
// would drop the lock that shows the other ranks that this process is alive.
namespace mpi_bridge {

// The name "/mpi_bridge.UID.PID.START.NAMESPACE.NONCE" for a segment that this process makes.
[[nodiscard]] std::string name_for_segment(const Nonce& nonce);

// Whether the process that made this name is known to be gone. False when in doubt.
[[nodiscard]] bool is_abandoned(std::string_view name);

// Removes all such names of this user.
void remove_abandoned_segments();

}  // namespace mpi_bridge
