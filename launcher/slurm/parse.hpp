// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "slurm/status.hpp"

// The text that Slurm's commands print in our fixed formats, read back. Pure; the formats are here
// beside their readers. A line that does not fit is an error that quotes it.
namespace batchai::slurm {

// squeue --noheader --states=all --Format=kQueueFormat
extern const std::string_view kQueueFormat;
[[nodiscard]] base::Result<std::map<std::string, JobStatus>> parse_queue(std::string_view text);

// sacct --noheader --parsable2 --allocations --duplicates --format=kAccountingFormat; of several
// incarnations of one job the last submitted counts.
extern const std::string_view kAccountingFormat;
[[nodiscard]] base::Result<std::map<std::string, JobStatus>> parse_accounting(
    std::string_view text);

// sinfo --noheader --Node --Format=kNodeFormat; the lines of one node in several partitions become
// one entry.
extern const std::string_view kNodeFormat;
[[nodiscard]] base::Result<std::vector<NodeStatus>> parse_nodes(std::string_view text);

// sbatch --parsable: "12" or "12;cluster", perhaps after other lines that a site's plugin printed.
[[nodiscard]] base::Result<std::string> parse_submitted(std::string_view text);

// What a refusal says on standard error, cleaned of the program's name and repeats, with a hint for
// the refusals that users meet.
[[nodiscard]] base::Error refusal(std::string_view command, std::string_view standard_error);

}  // namespace batchai::slurm
