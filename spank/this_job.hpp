// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spank/slurm.hpp"

// Whose plan is in an environment. Slurm hands the environment of a process on to the jobs that are
// submitted from it, so a plan there may be that of another job.
namespace batchai::spank {

// The value of BATCHAI_SLURM_JOB: what Slurm itself says of a job. Steps have it from the batch
// script or from `batchai run`, because slurmstepd knows the array and the restarts in the batch
// step only; for other steps it repeats the user's variables.
struct ThisJob {
    std::string id;
    std::string restarts = "0";
    std::string array_task;  // empty: not a task of an array job
};

// Returns nothing if the text is anything else.
[[nodiscard]] std::optional<ThisJob> read_this_job(std::string_view text);
[[nodiscard]] std::string text_of(const ThisJob& job);

// Returns the names of the variables that our parts have set for the job whose process has this
// environment, which ends with a null pointer. There are none outside of a job.
[[nodiscard]] std::vector<std::string> variables_of_a_job(char* const* environment);

// Returns the names of the variables by which Slurm passes the plugin's options, and the job's
// declaration, on to the commands that a job starts.
[[nodiscard]] std::vector<std::string> inherited_options(char* const* environment);

// init_post_opt on a node: removes what another job has left in this one's environment, and notes
// in it which job it belongs to.
void settle_job(spank_t handle);

// Returns what BATCHAI_SLURM_JOB says after that.
[[nodiscard]] ThisJob job_of_plan(spank_t handle);

}  // namespace batchai::spank
