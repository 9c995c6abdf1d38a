// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "record/job_files.hpp"
#include "status/history/facts.hpp"

// Reads the facts of a job from its directory and from the timelines of its ranks. Files that are
// missing, damaged or too large make the report shorter, and never fail it, except for the records
// of the attempts.
namespace batchai::status {

struct Collect {
    Summary job;
    bool usage = true;      // the samples of what the nodes used
    bool timelines = true;  // the ranks' timelines
};

[[nodiscard]] base::Result<Facts> collect(const record::JobFiles& files, const plan::Plan& plan,
                                          Collect what);

[[nodiscard]] Asked asked_of(const plan::Plan& plan);

// Reads PATH.RANK.json for each rank, of long files only parts. `path` is on this host.
inline constexpr std::size_t timeline_bytes = 48UL << 20U;  // of all ranks together
[[nodiscard]] std::vector<RankTimeline> read_timelines(const std::string& path,
                                                       std::size_t most_bytes = timeline_bytes);

}  // namespace batchai::status
