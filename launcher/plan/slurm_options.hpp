// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

// The options that give a job its allocation. This is the only list of them: sbatch's argument
// vector is made from it, and so is what the command-line filter sets in sbatch, srun and salloc.

namespace batchai::plan {

struct SlurmOption {
    std::string name;   // sbatch's long option, without the dashes
    std::string value;  // empty: the option has none
    // What the user says by an option of their own wins, unless this is set: then it must be the
    // same, because the job file gives the job its size.
    bool must_agree = false;
    // The key of job.json that the value comes from; empty: the site's vm size or default.
    std::string_view key = {};

    bool operator==(const SlurmOption&) const = default;
};

// In the order in which sbatch gets them, each name once: an option that the site adds to a vm size
// replaces ours.
[[nodiscard]] std::vector<SlurmOption> allocation_options(const Plan& plan);

// "--name" or "--name=value".
[[nodiscard]] std::string argument_of(const SlurmOption& option);

// The commands of Slurm that take --job-json.
enum class Door { sbatch, srun, salloc };

// What the user has set by options, "#SBATCH" lines or Slurm's own variables: by long name.
using GivenOptions = std::map<std::string, std::string, std::less<>>;

// Which options the command-line filter of a command has to set, so that the user gets the same
// allocation as from `batchai job create`. Each has a value, since the filter cannot set an option
// without one. An error when the user's own contradict the job file; `file` is its name in that.
[[nodiscard]] base::Result<std::vector<SlurmOption>> options_at_door(const Plan& plan, Door door,
                                                                     const GivenOptions& given,
                                                                     const std::string& file);

}  // namespace batchai::plan
