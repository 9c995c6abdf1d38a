// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bootstrap/launch.hpp"
#include "core/failure.hpp"
#include "trace/counters.hpp"
#include "trace/timeline.hpp"

namespace mpi_bridge {

// What this process tells about itself.
struct Trace {
    Counters counters;
    Timeline timeline;
};

// The one of this process. Never destroyed, because other threads may call in while it ends.
[[nodiscard]] Trace& trace();

// Starts the process's timeline at `path`, and sees to it that it is completed at exit().
[[nodiscard]] Done start_timeline(std::string_view path, int rank, int size);

// Does so where MPI_BRIDGE_TIMELINE, or else HOROVOD_TIMELINE, names a path.
// HOROVOD_TIMELINE=DYNAMIC means: not yet. A failure's text names the variable.
[[nodiscard]] Done start_timeline_from_environment(const Environment& environment, int rank,
                                                   int size);

}  // namespace mpi_bridge
