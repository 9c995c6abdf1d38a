// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "run/context.hpp"

namespace batchai::run {

// After a step: waits until its nodes have stored what it wrote, or the job is told to end. The
// step itself does not wait for that, because Slurm drains nodes whose steps do not end. A node
// that has not come to an end with it in the time that it said gets a failure note.
[[nodiscard]] std::optional<int> wait_until_stored(const Context& context);

}  // namespace batchai::run
