// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "cli/outcome.hpp"
#include "cli/report/names.hpp"
#include "cli/report/planning.hpp"

namespace batchai::cli {

struct ValidateOptions {
    JobFileOptions file;
    std::string format = "text";  // or "json"
};

// Parses and plans; changes nothing.
[[nodiscard]] Answer validate(const ValidateOptions& options);

struct HandOverOptions {
    JobFileOptions file;
    // "sbatch", "srun" or "salloc": its command-line filter asks, gives what the user has set as
    // JSON on standard input, and wants to know what else it has to set.
    std::optional<std::string> door;
};

// For the plugin and the command-line filter: freezes the plan of a file that was given to sbatch,
// srun or salloc, and prints where it is; for a filter, also the options that it has to set, one
// "--name=value" a line. Diagnostics go to standard error.
[[nodiscard]] Answer hand_over(const HandOverOptions& options);

struct FrozenPlan {
    std::string path;
    std::string digest;
};

// The same for `batchai run` with a file or an image of its own: without the import, which is a
// phase of the run. Nothing: the file has faults, which have been printed.
[[nodiscard]] base::Result<std::optional<FrozenPlan>> freeze_plan(const HandOverOptions& options);

}  // namespace batchai::cli
