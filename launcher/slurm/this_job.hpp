// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"

// Which job this process belongs to. Only SLURM_JOB_ID is taken from the environment, as a hint:
// the other variables of Slurm's may be those of a job or a shell around this job, because sbatch
// hands its environment on, and Slurm sets some of them only in array jobs or after a requeue.
namespace batchai::slurm {

struct ThisJob {
    std::string job_id;
    int restart = 0;                 // how often Slurm has queued it again; 0 on the first run
    std::vector<std::string> nodes;  // expanded, in Slurm's order; the first is the master
    // In a task of an array job:
    std::string array_id{};
    std::optional<int> array_task{};

    // Returns what Slurm's commands must be given to mean this job. The last task of an array has
    // the same number as the whole array.
    [[nodiscard]] std::string id_in_commands() const;

    bool operator==(const ThisJob&) const = default;
};

// Output of: squeue --noheader --all --states=all --jobs=ID --Format=kThisJobFormat. It has no text
// of the user's.
extern const std::string_view kThisJobFormat;

// Finds the job in what squeue has printed, which for an array job is all of its tasks. It is an
// error if the job is not there, is another user's, has no nodes or has ended, or is a component of
// a heterogeneous job, which batchai does not run in. Pure.
[[nodiscard]] base::Result<ThisJob> read_this_job(std::string_view text, const std::string& job_id,
                                                  uid_t user);

// Asks Slurm about the job that SLURM_JOB_ID names. A controller that does not answer, perhaps
// because it is being restarted, is asked again for as long as `patience` says.
[[nodiscard]] base::Result<ThisJob> this_job(
    std::chrono::seconds patience = std::chrono::minutes(5));

// The value of BATCHAI_SLURM_JOB, which says the same to the plugin (spank/protocol.h).
[[nodiscard]] std::string text_for_plugin(const ThisJob& job);

}  // namespace batchai::slurm
