// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "shm/nonce.hpp"

// What happens to the names of segments whose creator died before it could remove them.
//
// A segment needs a name only until all ranks of the node have attached, but a creator that is
// killed in that time leaves it, and the memory, in /dev/shm. So the name tells who made it:
// process number, start time (numbers are used again) and PID namespace (they mean nothing in
// another one, which may share /dev/shm). Whoever finds that this process is gone removes the
// name: ranks that had attached, when they end, and every later creator of the same user.
//
// A file without a name (memfd, O_TMPFILE) would leave nothing behind, but peers could only open it
// through /proc/PID/fd, which fails between the PID namespaces of containers that share /dev/shm,
// and handing it over by a socket fails between network namespaces as well.
//
// No file is opened for this: to close any descriptor of a segment that this process is attached to
// would drop the lock by which the other ranks know that it lives.
namespace mpi_bridge {

// "/mpi_bridge.UID.PID.START.NAMESPACE.NONCE" for a segment that this process makes.
[[nodiscard]] std::string name_for_segment(const Nonce& nonce);

// Whether the process that made this name is known not to exist any more. False in doubt.
[[nodiscard]] bool is_abandoned(std::string_view name);

// Removes all such names of this user.
void remove_abandoned_segments();

}  // namespace mpi_bridge
