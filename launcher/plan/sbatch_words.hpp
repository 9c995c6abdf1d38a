// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

// Reads options of sbatch as sbatch itself would: long ones, which may be abbreviated, and short
// ones, with their values in the same word or in the next. Returns them by their long names. An
// option that sbatch of Slurm 22.05 does not have may belong to a later release or to a plugin; it
// is passed on as it is, and its value must be in the same word. The errors have ExitCode::usage:
// the option belongs to the plan of the job, its name is ambiguous, it has no value, the word is no
// option, or it has characters that a plan cannot hold.
[[nodiscard]] base::Result<std::vector<SlurmOption>> read_sbatch_words(
    const std::vector<std::string>& words);

}  // namespace batchai::plan
