// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/network.hpp"
#include "slurm/status.hpp"

// Reads the text that Slurm's commands print in the formats that we ask for. Each format is
// declared beside its reader. Pure. A line that does not match the format is an error that quotes
// the line.
namespace batchai::slurm {

// Output of: squeue --noheader --states=all --Format=kQueueFormat
extern const std::string_view kQueueFormat;
[[nodiscard]] base::Result<std::map<std::string, JobStatus>> parse_queue(std::string_view text);

// Output of: squeue --noheader --format=kScriptFormat. Returns the jobs whose batch script is the
// file at this path. The tasks of an array job count as one job.
struct ScriptJob {
    std::string id;
    bool waits = false;  // none of it has started

    bool operator==(const ScriptJob&) const = default;
};
extern const std::string_view kScriptFormat;
[[nodiscard]] base::Result<std::vector<ScriptJob>> parse_script_jobs(std::string_view text,
                                                                     std::string_view script);

// Output of: sacct --noheader --parsable2 --allocations --duplicates --format=kAccountingFormat. If
// there are several incarnations of one job, the one that was submitted last counts.
extern const std::string_view kAccountingFormat;
[[nodiscard]] base::Result<std::map<std::string, JobStatus>> parse_accounting(
    std::string_view text);

// Output of: sinfo --noheader --Node --Format=kNodeFormat. The lines of a node that is in several
// partitions become one entry.
extern const std::string_view kNodeFormat;
[[nodiscard]] base::Result<std::vector<NodeStatus>> parse_nodes(std::string_view text);

// Output of: sinfo --noheader --Node --Format=kDaemonFormat. Returns where each node's slurmd
// listens.
extern const std::string_view kDaemonFormat;
[[nodiscard]] base::Result<std::map<std::string, base::Endpoint>> parse_daemons(
    std::string_view text);

// Output of: scontrol --oneliner show step JOB. Returns the id of the step whose srun has this
// process id on this host; nothing if there is none. Slurm leaves out the domain of the host.
[[nodiscard]] std::optional<std::string> step_with_srun(std::string_view text,
                                                        std::string_view host, int process);

// Output of: sbatch --parsable. It is "12" or "12;cluster", perhaps after other lines that a plugin
// of the site printed.
[[nodiscard]] base::Result<JobId> parse_submitted(std::string_view text);

// Output of: scontrol show config. Its lines are "Key = value", in several parts with titles; a key
// that occurs twice keeps its first value. An output without any such line is an error.
[[nodiscard]] base::Result<std::map<std::string, std::string, std::less<>>> parse_configuration(
    std::string_view text);

// Output of: srun --mpi=list. After a line that ends with "are..." comes one name on each line.
[[nodiscard]] base::Result<std::vector<std::string>> parse_mpi_types(std::string_view text);

}  // namespace batchai::slurm
