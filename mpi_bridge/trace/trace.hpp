// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/environment.hpp"
#include "core/failure.hpp"
#include "trace/counters.hpp"
#include "trace/timeline.hpp"

namespace mpi_bridge {

// The means by which this process can be observed.
struct Trace {
    Counters counters;
    Timeline timeline;
};

// The instance of this process. Never destroyed, because other threads may use it during exit.
[[nodiscard]] Trace& trace();

// Starts the process's timeline at `path` and makes sure that it is completed at exit().
[[nodiscard]] Done start_timeline(std::string_view path, int rank, int size);

// Starts the timeline if MPI_BRIDGE_TIMELINE, or else HOROVOD_TIMELINE, names a path.
// HOROVOD_TIMELINE=DYNAMIC means that it will be started later. A failure's text names the
// variable.
[[nodiscard]] Done start_timeline_from_environment(const Environment& environment, int rank,
                                                   int size);

}  // namespace mpi_bridge
