// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/failure.hpp"

namespace mpi_bridge {

enum class Launch {
    pmix,   // a PMIx launcher started this process
    alone,  // nobody did: rank 0 of 1
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

// Decides from the environment how this process was started. Refuses (MPIB_ERROR_BOOTSTRAP, with
// the remedy in the text) where a launcher started several processes without PMIx, because each
// would take itself for the only one. MPI_BRIDGE_ALONE=1 overrides the refusal.
//
// PMIx variables that were inherited from another Slurm step (a shell in a rank that calls srun
// again) do not count. A batch script and the shell of salloc are one process, whatever the number
// of tasks of their job: they are alone.
[[nodiscard]] Outcome<Launch> detect_launch(const Environment& environment);

// For a process that is alone: what to tell a user who may have meant it to be one of many, because
// the job has tasks that nothing runs in. "" when there is nothing to tell.
[[nodiscard]] std::string alone_among_idle_tasks(const Environment& environment);

// The environment of this process.
[[nodiscard]] std::optional<std::string> process_environment(const char* name);

}  // namespace mpi_bridge
