// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/process.hpp"

namespace batchai::slurm {

// Removes from the environment what our parts have set in it for the job that its process belongs
// to (spank/protocol.h); what the user or the job file has set stays. Does nothing to the
// environment of a process that belongs to none. Pure; the plugin does the same for sbatch and
// salloc.
[[nodiscard]] base::Environment without_variables_of_a_job(base::Environment environment);

}  // namespace batchai::slurm
