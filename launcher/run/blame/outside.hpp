// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string_view>

#include "run/phases/phase.hpp"

// Why a step failed, when it was not its own program's doing.
namespace batchai::run {

// Somebody ended the job during the step.
[[nodiscard]] std::optional<Ending> ended_from_outside(const StepResult& result,
                                                       std::string_view phase);

// To be called before a step: what nodes note from here on is this step's.
void expect_node_failures(const Context& context);

// The first node that could not do its part of the step (a mount that failed), if there is one.
// `ended_well`: the step itself did. Then only data that did not reach their storage count: a
// sandbox that failed was of a step that somebody else started in the job.
[[nodiscard]] std::optional<Ending> node_failure(const Context& context, std::string_view phase,
                                                 bool ended_well = false);

}  // namespace batchai::run
