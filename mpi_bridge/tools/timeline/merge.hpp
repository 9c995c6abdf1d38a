// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "tools/timeline/trace_event.hpp"

namespace mpi_bridge::timeline_tool {

// Where each rank's zero lies on one clock, in nanoseconds after the earliest of them.
//
// Ranks on one host (one running kernel) share a steady clock, so those are exact to a microsecond;
// hosts are set against each other by their time of day, and are as far off as these are. Where two
// ranks of one kernel disagree on the difference of its two clocks by more than a second (the time
// of day was set meanwhile, or a container has a clock of its own), each goes by its time of day.
[[nodiscard]] std::vector<std::int64_t> align(std::span<const ClockEvent> clocks);

struct MergeReport {
    std::uint64_t events = 0;
    std::vector<std::string> torn;  // files that lack their end
    std::vector<int> missing;       // ranks of the job that no file is of
};

// Writes the ranks' timelines into one file, each event moved to the common clock. In memory that
// grows with the number of files only. A failure names the file, and the byte where there is one;
// then no output is left. The output must not be one of the inputs.
[[nodiscard]] Outcome<MergeReport> merge(std::span<const std::string> inputs,
                                         const std::string& output);

}  // namespace mpi_bridge::timeline_tool
