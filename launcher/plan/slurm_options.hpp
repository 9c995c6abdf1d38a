// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

// The options that give a job its allocation. This is the only list of them: the argument vector of
// sbatch is made from it, and so is what the command-line filter sets in sbatch, srun and salloc.

namespace batchai::plan {

struct SlurmOption {
    std::string name;   // sbatch's long option, without the dashes
    std::string value;  // empty: the option has none
    // An option of the user's own wins over this one. If this is set, the value is the job file's,
    // and the user's must be the same.
    bool must_agree = false;
    // The key of job.json that the value comes from. Empty: it comes from the site's VM size or
    // default.
    std::string_view key = {};

    bool operator==(const SlurmOption&) const = default;
};

// Returns the options in the order in which sbatch gets them, each name once. An option that the
// site adds to a VM size replaces the launcher's.
[[nodiscard]] std::vector<SlurmOption> allocation_options(const Plan& plan);

// Returns "--name" or "--name=value".
[[nodiscard]] std::string argument_of(const SlurmOption& option);

// The commands of Slurm that take --job-json.
enum class Door { sbatch, srun, salloc };

// What the user has set by options, "#SBATCH" lines or Slurm's own environment variables. The key
// is the option's long name.
using GivenOptions = std::map<std::string, std::string, std::less<>>;

// Returns the options that the command-line filter of a command has to set, so that the user gets
// the same allocation as from `batchai job create`. Each has a value, because the filter cannot set
// an option without one. Returns an error if the user's own options contradict the job file, which
// the message calls `file`.
[[nodiscard]] base::Result<std::vector<SlurmOption>> options_at_door(const Plan& plan, Door door,
                                                                     const GivenOptions& given,
                                                                     const std::string& file);

}  // namespace batchai::plan
