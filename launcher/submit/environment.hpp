// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>

#include "base/process.hpp"

// What a job gets of the process that submits it.
namespace batchai::submit {

// Returns the environment of sbatch.
[[nodiscard]] base::Environment submission_environment();

// Returns the absolute path of this program, or "batchai" if it cannot be determined.
[[nodiscard]] std::string launcher_path();

// Returns the variables of this process that sbatch passes on to the job, for plan::Inputs.
// Three kinds are left out: variables that Slurm or this program has set for the job in which this
// process runs, since they mean something else in the new job; credentials of a storage account;
// and values that are not UTF-8, which a plan cannot hold.
[[nodiscard]] std::map<std::string, std::string> login_environment();

}  // namespace batchai::submit
