// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "cli/output/output.hpp"
#include "submit/planning.hpp"
#include "user/parents.hpp"

namespace batchai::cli {

struct ValidateOptions {
    submit::JobFileOptions file;
    std::string format = "text";  // or "json"
};

// Parses and plans a job file without changing anything.
[[nodiscard]] Answer validate(const ValidateOptions& options);

struct HandOverOptions {
    submit::JobFileOptions file;
    // The command whose command-line filter asks: "sbatch", "srun" or "salloc". The filter passes
    // the user's options as JSON on standard input and reads which other options it must set.
    std::optional<std::string> door;
    bool secret_variables = false;  // only print the names of variables that hold secrets
};

// Freezes the plan of a file that was given to sbatch, srun or salloc, and prints where the plan
// is. The plugin and the command-line filter call this. For a filter, it also prints the options
// that the filter must set, one "--name=value" per line. Diagnostics go to standard error.
[[nodiscard]] Answer hand_over(const HandOverOptions& options);

struct FrozenPlan {
    std::string path;
    std::string digest;
};

// Freezes a plan for `batchai run` with a file or an image of its own. Unlike hand_over(), it does
// not import the image, since that is a phase of the run. Returns nothing if the file has errors,
// which have been printed.
[[nodiscard]] base::Result<std::optional<FrozenPlan>> freeze_plan(const HandOverOptions& options);

}  // namespace batchai::cli
