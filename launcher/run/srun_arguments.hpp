// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/process.hpp"
#include "plan/plan.hpp"

namespace batchai::run {

struct StepFiles {
    std::string standard_output;  // absolute host path, or a pattern of srun (%N node, %t task)
    std::string standard_error;
};

// The argv of the srun that carries out `step`. Everything that decides sizes is said outright:
// srun since 22.05 inherits some of it from sbatch and some not.
[[nodiscard]] base::Arguments srun_arguments(const plan::Plan& plan, const plan::Step& step,
                                             const std::string& mpi, const StepFiles& files);

// The same for the wire-up check: as many processes as the ranks step, each runs `program`.
[[nodiscard]] base::Arguments wire_up_arguments(const plan::Plan& plan, const plan::Step& ranks,
                                                const std::string& mpi, const std::string& program);

// The environment for srun: ours without what an enclosing sbatch set for its own purposes, plus
// `additions` ("NAME=value"), which win.
[[nodiscard]] base::Environment srun_environment(const base::Environment& additions);

}  // namespace batchai::run
