// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace batchai::slurm {

// What Slurm's accounting says that a job has used. It comes from the samples of slurmstepd, if the
// site has it take any.
struct JobAccounts {
    double cpu_seconds = 0;
    double cpu_seconds_allocated = 0;
    std::optional<std::int64_t> largest_task;  // bytes, the most memory of one task

    bool operator==(const JobAccounts&) const = default;
};

// Output of: sacct --noheader --parsable2 --format=kJobAccountsFormat for one job, with its steps.
// Returns nothing if Slurm does not know the job, or has not counted anything.
extern const std::string_view kJobAccountsFormat;
[[nodiscard]] base::Result<std::optional<JobAccounts>> parse_job_accounts(std::string_view text);

}  // namespace batchai::slurm
