// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

// The documents that are generated from the field table.
namespace batchai::job {

// Returns the reference page of a job file's keys, as Markdown.
[[nodiscard]] std::string reference_page();

// Returns the JSON Schema (2020-12) of a job file. It is closed: an unknown key is refused unless
// it starts with "$".
[[nodiscard]] std::string schema_document();

}  // namespace batchai::job
