// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "plan/plan.hpp"

namespace batchai::plan {

// Return whether the job is run again after this cause, a word of job::retry_causes, or with this
// exit code.
[[nodiscard]] bool retries_on(const Retry& retry, std::string_view cause);
[[nodiscard]] bool retries_on_exit_code(const Retry& retry, int exit_code);

}  // namespace batchai::plan
