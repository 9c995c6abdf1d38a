// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/process.hpp"

// The files of --output and --error. In their names, Slurm replaces "%" and a letter, and a "\"
// changes what all others mean. How srun wants the two written if they mean themselves depends on
// the release and on the letter that follows, and some of it cannot be written at all. But it looks
// up a relative name in the step's working directory, in whose path it replaces nothing. sbatch
// puts that directory in front of the name before it replaces anything.
namespace batchai::slurm {

// Returns whether Slurm would read something else than this path.
[[nodiscard]] bool is_pattern(std::string_view path);

// Returns the options of srun that let the tasks print into these files. Only in the last component
// of a path does "%t" stand for the task. (Slurm's "%N" is the name of the host, which is not that
// of the node everywhere.) Both files are in one directory; if is_pattern() is true of it, the
// step's working directory is changed to it.
[[nodiscard]] base::Arguments output_options(const std::string& output, const std::string& errors);

// Returns the --output of sbatch that means this path, unless it has a "\" and Slurm's release is
// one for which can_name_backslash() is false.
[[nodiscard]] std::string batch_output(std::string_view path);
// Returns whether there is an --output of sbatch for a path with a "\" in a release such as
// "22.05.8". From 24.11 on, Slurm drops each "\".
[[nodiscard]] bool can_name_backslash(std::string_view release);

// Returns the directory of a file of output_options().
[[nodiscard]] std::string_view directory_of_output(std::string_view path);

}  // namespace batchai::slurm
