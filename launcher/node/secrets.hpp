// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// The text of a file that belongs to the user and that nobody else can read.
[[nodiscard]] base::Result<std::string> read_private_file(const std::string& path);

// The values of `names` from <job directory>/secrets.json, an object of strings that only the user
// may read. No message ever holds a value.
[[nodiscard]] base::Result<std::vector<plan::Variable>> read_secrets(
    const std::string& job_directory, const std::vector<std::string>& names);

}  // namespace batchai::node
