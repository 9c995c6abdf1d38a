// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "tools/timeline/trace_event.hpp"

namespace mpi_bridge::timeline_tool {

// The position of each rank's zero on one common clock, in nanoseconds after the earliest of them.
//
// Ranks on one host (one running kernel) share a steady clock, so their positions are exact to a
// microsecond. Hosts are compared by their time of day, so they are off by as much as their clocks
// differ. If the difference between the two clocks is not the same for two ranks of one kernel, but
// differs by more than a second (because the time of day was set meanwhile, or a container has a
// clock of its own), each of them is placed by its time of day.
[[nodiscard]] std::vector<std::int64_t> align(std::span<const ClockEvent> clocks);

struct MergeReport {
    std::uint64_t events = 0;
    std::vector<std::string> torn;  // files that lack their end
    std::vector<int> missing;       // ranks of the job that have no file
};

// Writes the ranks' timelines into one file, with each event moved to the common clock. The memory
// used grows only with the number of files. A failure names the file and, if possible, the byte; no
// output is left in that case. The output must not be one of the inputs.
[[nodiscard]] Outcome<MergeReport> merge(std::span<const std::string> inputs,
                                         const std::string& output);

}  // namespace mpi_bridge::timeline_tool
