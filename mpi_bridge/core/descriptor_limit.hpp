// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mpi_bridge {

// Raises the soft limit of open files, up to the hard limit, if a rank of so many could need more:
// a rank may come to have a connection to each other one. The usual limit of 1024 stays in jobs of
// up to some 400 ranks, because select() cannot handle numbers above it, which old programs may
// call.
void raise_descriptor_limit(int ranks);

// What to add to the text of an error: the limit, if the error says that it is reached; or "".
[[nodiscard]] std::string about_descriptor_limit(int error);

}  // namespace mpi_bridge
