// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spank/options.hpp"

// The submitting side: runs in sbatch, srun and salloc, as the user.
namespace batchai::spank {

// What the environment of the command says about an earlier plan. A string is empty if its variable
// is not set.
struct Inherited {
    std::string plan;               // BATCHAI_PLAN
    std::string job_json;           // BATCHAI_JOB_JSON: the file behind that plan, absolute
    std::string option;             // the value of --job-json that came with the environment
    std::string job_image;          // BATCHAI_JOB_IMAGE: the --job-image of that plan
    bool ignore_container = false;  // BATCHAI_IGNORE_CONTAINER=1: given for that plan
};

// Returns whether a new plan has to be made. A plan in the environment is kept for the same file,
// so that all steps of a job run what was submitted. --job-json with another file, --job-image with
// another image, and --ignore-container if that plan was made without it need a plan of their own.
[[nodiscard]] bool needs_hand_over(const Options& options, const Inherited& inherited,
                                   const std::string& resolved_job_json);

struct Marker {
    std::string plan;
    std::string digest;
    std::string declaration;
    std::vector<std::string> secret_variables = {};  // to be removed from the environment
};

// Reads the lines that `batchai hand-over` prints. Returns nothing if the output is anything
// else.
[[nodiscard]] std::optional<Marker> read_marker(std::string_view output);

// Reads what the command-line filter has left in BATCHAI_HANDED_OVER. Returns nothing if the filter
// did not run in this very process, or if the text is anything else.
[[nodiscard]] std::optional<Marker> marker_of_filter(std::string_view text, long process);

// init: if the command submits a job of its own from within a job, removes from the environment
// what that job has there for itself: its plan, its ranks' variables, and its options, which Slurm
// would otherwise apply again. srun makes a step if the environment has a job; the plan is then
// noted as that job's, and a plan that is another job's is removed. `allocates`: sbatch or salloc.
void leave_job_around(bool allocates);

// Hands the file over, unless the filter has done so, and puts the marker in the environment, which
// travels with the job, and the declaration where job_submit.lua finds it. `new_allocation` says
// that the submission is a job of its own, even if this process is part of another job. A plan in
// the environment then belongs to that other job. To refuse the submission, prints a message for
// the user and returns -1.
[[nodiscard]] int hand_over_if_asked(spank_t handle, const Settings& settings, bool new_allocation);

}  // namespace batchai::spank
