// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/json.hpp"
#include "job/model.hpp"

namespace batchai::job {

// Returns the job's settings as `job show` prints them: every key of the newest schema, null for
// absent values and for secrets, strings unexpanded, defaults filled in, and toolType. The caller
// adds the keys of the resource itself (id, name, states, times).
[[nodiscard]] base::Value to_json(const JobSpec& spec);

}  // namespace batchai::job
