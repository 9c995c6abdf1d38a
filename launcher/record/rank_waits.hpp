// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/usage.hpp"

// How long the ranks have waited in collectives of mpi_bridge, and for whom. A rank that the others
// wait for waits least.
namespace batchai::record {

struct RankWait {
    int rank = 0;
    std::string node;
    double share = 0;  // of the time, from 0 to 1
};

// Returns the share of the time that the rank has waited, from the first sample that tells on.
// Nothing: it takes part in no collectives, or the samples are of less than three seconds.
[[nodiscard]] std::optional<double> share_of_waiting(const std::vector<UsageSample>& samples,
                                                     int rank);

// Returns the shares of the time from the ranks' newest start to the last sample that tells, sorted
// by rank; nothing of the first half minute. A rank that has met the others much less often than
// most is left out. Three samples of each step are enough.
[[nodiscard]] std::vector<RankWait> waits_since_start(const std::vector<NodeUsage>& usage);

// Returns how often a rank must have met the others to be compared with them: half as often as the
// median has.
[[nodiscard]] std::int64_t least_meetings(std::vector<std::int64_t> meetings);

// Returns the place of the one for which the others wait: it waits for a tenth of the time less
// than the median (a quarter, if there are two), and no other comes near to it.
[[nodiscard]] std::optional<std::size_t> awaited_one(const std::vector<double>& shares);

}  // namespace batchai::record
