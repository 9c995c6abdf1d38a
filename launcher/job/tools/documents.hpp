// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

// What is generated from the field table.
namespace batchai::job {

// The reference of a job file's keys and of all diagnostics, as Markdown.
[[nodiscard]] std::string reference_page();

// The JSON Schema (2020-12) of a job file. It is closed: a key that is not known, and does not
// start with "$", is refused.
[[nodiscard]] std::string schema_document();

}  // namespace batchai::job
