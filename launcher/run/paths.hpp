// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace batchai::run {

// Each rank's standard error, kept apart in the job's directory so that a failure can be told by
// rank: "<job directory>/attempts/<attempt>.stderr-<rank>.txt", and the same as a pattern of srun.
[[nodiscard]] std::string rank_error_file(const plan::Plan& plan, int attempt, int rank);
[[nodiscard]] std::string rank_error_pattern(const plan::Plan& plan, int attempt);

// The installed mpi_bridge_wireup: beside this program's own installation, wherever that was moved
// to, else where it was configured to be.
[[nodiscard]] std::string wire_up_program();

}  // namespace batchai::run
