// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace batchai::submit {

// Derives a job's name from the file's: "runs/My job.json" becomes "My-job". The name is "job" for
// standard input.
[[nodiscard]] std::string job_name_from_file(const std::string& path);

}  // namespace batchai::submit
