// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "plan/plan.hpp"

namespace batchai::run {

struct StepFiles {
    std::string standard_output;  // absolute host path, or a pattern of srun (%N node, %t task)
    std::string standard_error;
};

// `nodes` below: where the step runs, if not on all nodes of the allocation (or, for the master
// step, on the first).

// The argv of the srun that carries out `step`. Everything that decides sizes is said outright:
// srun since 22.05 inherits some of it from sbatch and some not.
[[nodiscard]] base::Arguments srun_arguments(const plan::Plan& plan, const plan::Step& step,
                                             const std::string& mpi, const StepFiles& files,
                                             const std::vector<std::string>& nodes = {});

// The same for the wire-up check: as many processes as the ranks step, each runs `check`
// and reports to a file of its own (JobFiles::wire_up_reports). Its tasks are held (StepRequest).
[[nodiscard]] base::Arguments wire_up_arguments(const plan::Plan& plan, const plan::Step& ranks,
                                                const std::string& mpi,
                                                const base::Arguments& check,
                                                const std::string& reports,
                                                const std::vector<std::string>& nodes = {});

// A step beside the others of a job that runs: one command on one node, with all that the ranks
// have there. It starts in the directory in which srun does, or in the image's.
struct Visit {
    std::string job_id;  // Slurm's
    std::string node;
    std::optional<std::string> command;  // none: a shell
    bool terminal = false;               // with a terminal of its own
};

// Ctrl-C goes to the command. srun's exit code is the command's.
[[nodiscard]] base::Arguments visit_arguments(const Visit& visit);

// The environment for srun: ours without what an enclosing sbatch set for its own purposes, plus
// `additions` ("NAME=value"), which win.
[[nodiscard]] base::Environment srun_environment(const base::Environment& additions);

// For a step that needs none of the job's mounts: with neither the plan nor sbatch's --job-json in
// its environment no sandbox is built.
[[nodiscard]] base::Environment environment_of_bare_nodes();

}  // namespace batchai::run
