// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace batchai::run {

// Each rank's standard error, kept apart in the job's directory so that a failure can be told by
// rank: "<job directory>/attempts/<start>.stderr-<rank>.txt", and the same as a pattern of srun.
// `start` is the attempt's number, and after a restart of an elastic job's ranks
// "<attempt>-<restart>".
[[nodiscard]] std::string rank_error_file(const plan::Plan& plan, const std::string& start,
                                          int rank);
[[nodiscard]] std::string rank_error_pattern(const plan::Plan& plan, const std::string& start);

}  // namespace batchai::run
