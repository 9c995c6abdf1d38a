// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace batchai::job {

// The reference of a job file's keys and of its diagnostics, as Markdown, from the field table.
[[nodiscard]] std::string reference_page();

}  // namespace batchai::job
