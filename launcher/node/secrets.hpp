// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Returns the text of a file that belongs to the user and that nobody else can read. It is an error
// if others have access to the file.
[[nodiscard]] base::Result<std::string> read_private_file(const std::string& path);

// Returns the values of `names` from <job directory>/secrets.json, an object of strings that only
// the user may read. No error message contains a value.
[[nodiscard]] base::Result<std::vector<plan::Variable>> read_secrets(
    const std::string& job_directory, const std::vector<std::string>& names);

}  // namespace batchai::node
