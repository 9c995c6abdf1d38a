// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "job/model.hpp"
#include "plan/plan.hpp"

// The options that give a job its allocation. This is the only list of them: the argument vector of
// sbatch is made from it, and so is what the command-line filter sets in sbatch, srun and salloc.

namespace batchai::plan {

// Adds the options of one origin. They replace those of the same names, and those that say the same
// thing in another way: "gpus-per-node" replaces "gres". Two options of one origin do so only if
// their names are the same.
void put_options(std::vector<SlurmOption>& options, std::vector<SlurmOption> added);

// Adds the settings that are present. `exclusive` that is false removes the option.
void put_settings(std::vector<SlurmOption>& options, const job::SlurmSettings& settings,
                  Origin origin);

// Returns the options in the order in which sbatch gets them, each name once. The options of
// Allocation::options replace the launcher's.
[[nodiscard]] std::vector<SlurmOption> allocation_options(const Plan& plan);

// Returns how srun distributes the ranks over the sockets of their nodes (--distribution), if the
// plan says so.
[[nodiscard]] std::optional<std::string> distribution_of_ranks(const Plan& plan);

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
