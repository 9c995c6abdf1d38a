// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/ended_by.hpp"

// What Slurm's programs say in English on a standard error, which is all that they tell of a step's
// end while the job still runs. No other file reads it. Pure.
namespace batchai::run {

struct TaskEnd {
    std::string node;
    int task = 0;
    std::optional<int> signal;
    std::optional<int> exit_code;
    // Killed after the whole step was cancelled, by one of its ranks (PMIx_Abort) or from outside.
    bool victim = false;

    bool operator==(const TaskEnd&) const = default;
};

// The bad ends that srun reported, in the order of its lines (Slurm 22.05: "srun: error: n2: task
// 3: Exited with exit code 7", "… tasks 0-1: Killed"), up to the point where srun ended the step
// on its own account: what ends after that is a victim, not a cause. When the step was cancelled
// before any bad end, those that it killed are marked as victims.
[[nodiscard]] std::vector<TaskEnd> bad_ends(std::string_view srun_messages);

// What ended a step besides its own tasks, if srun said so: memory or a lost node.
[[nodiscard]] std::optional<record::EndedBy> end_of_step(std::string_view srun_messages);

// What ended the job, if slurmstepd said so on the batch script's standard error: the last such
// notice counts. A plain cancellation is the user's.
[[nodiscard]] std::optional<record::EndedBy> end_of_job(std::string_view standard_error,
                                                        std::string_view job_id);

}  // namespace batchai::run
