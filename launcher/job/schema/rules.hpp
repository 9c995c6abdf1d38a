// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "job/parse.hpp"
#include "job/schema/faults.hpp"

namespace batchai::job {

// What the field table cannot say: rules between values of different fields, and defaults that
// follow from other values. `spec` may lack what was faulty in the file.
void apply_rules(JobSpec& spec, const PositionTable& positions, Faults& faults);

}  // namespace batchai::job
