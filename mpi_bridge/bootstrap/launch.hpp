// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/environment.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

enum class Launch {
    pmix,   // a PMIx launcher started this process
    pmi2,   // srun --mpi=pmi2 did
    alone,  // no launcher started it: rank 0 of 1
};

// Decides from the environment how this process was started. Fails with MPIB_ERROR_BOOTSTRAP, with
// the remedy in the text, where a launcher started several processes without PMIx or Slurm's PMI-2,
// because each would take itself for the only one. It also fails in a heterogeneous job with PMI-2,
// which wires up one component only. With MPI_BRIDGE_ALONE=1 the process is alone if it has no
// PMIx.
//
// PMIx variables that were inherited from another Slurm step (when a shell in a rank calls srun
// again) do not count. A batch script and the shell of salloc are one process, however many tasks
// their job has, so they are alone.
[[nodiscard]] Outcome<Launch> detect_launch(const Environment& environment);

// The descriptor that Slurm's PMI-2 gave to this task. Nothing without PMI-2, or when the variables
// were inherited from another step.
[[nodiscard]] std::optional<int> pmi2_socket(const Environment& environment);

// For a process that is alone: a hint to a user who may have meant it to be one of many, because
// the job has tasks that nothing runs in. "" when there is nothing to say.
[[nodiscard]] std::string alone_among_idle_tasks(const Environment& environment);

}  // namespace mpi_bridge
