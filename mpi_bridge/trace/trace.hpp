// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/environment.hpp"
#include "core/failure.hpp"
#include "trace/counters.hpp"
#include "trace/timeline.hpp"

// How a process can be observed.
//
//   trace.hpp           the counters and the timeline of this process
//   counters.hpp        what this rank has done, in numbers
//   bus_bytes.hpp       the bytes from which bus bandwidth is computed
//   timeline.hpp        the timeline of a rank: records events while it is written
//   activity.hpp        the phases of an operation that a timeline shows
//   event_queue.hpp     carries events to the thread that writes them
//   timeline_text.hpp   turns events into the text of Chrome's trace format
//   timeline_file.hpp   a file that is complete JSON after every write
//   stall.hpp           reports operations that some ranks have not submitted
//   stall_settings.hpp  when to report them
//   failure_record.hpp  tells a launcher why this rank failed
//   record_file.hpp     writes such a record
//   quoting.hpp         texts that may hold any bytes, for JSON and for messages
//   byte_size.hpp       sizes in words: "4.0 MiB"
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
