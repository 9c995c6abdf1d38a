// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace batchai::job {

// The JSON Schema (2020-12) of a job file, from the field table. It is closed: a key that is not
// known, and does not start with "$", is refused.
[[nodiscard]] std::string schema_document();

}  // namespace batchai::job
