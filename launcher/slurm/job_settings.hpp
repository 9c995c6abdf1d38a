// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace batchai::slurm {

// What Slurm holds of a job's request, beyond what squeue lists.
struct JobSettings {
    std::string excluded;               // hostlist of the nodes that the job must not get
    std::vector<std::string> required;  // nodes that it must get
    bool preempted = false;             // a job of higher priority has taken its nodes for good
    bool runs = false;                  // and Slurm has not begun to end it
    bool expedited = false;             // submitted with --requeue=expedite, from 25.11 on

    bool operator==(const JobSettings&) const = default;
};

// Reads what `scontrol --oneliner show job` prints for one job.
[[nodiscard]] base::Result<JobSettings> parse_job_settings(std::string_view text);

// Returns the comment in what `scontrol show job` prints, up to its first newline.
[[nodiscard]] std::string parse_comment(std::string_view text);

// Returns the hostlist with `nodes` added, as far as it does not have them.
[[nodiscard]] base::Result<std::string> with_nodes(const std::string& hostlist,
                                                   const std::vector<std::string>& nodes);

}  // namespace batchai::slurm
