// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/json.hpp"
#include "job/model.hpp"

namespace batchai::job {

// The job's settings as `job show` prints them: every key of the newest schema, null for what is
// absent, strings unexpanded, no secret's value, defaults filled in, and toolType. The caller adds
// what belongs to the resource (id, name, states, times).
[[nodiscard]] base::Value to_json(const JobSpec& spec);

}  // namespace batchai::job
