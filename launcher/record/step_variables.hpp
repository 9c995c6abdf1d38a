// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/process.hpp"
#include "record/job_files.hpp"

// What `batchai run` adds to the environment of its steps. It is kept in a file in the job's
// directory for steps that others start in the same job, as `batchai job node exec` does.
namespace batchai::record {

[[nodiscard]] base::Result<void> write_step_variables(const JobFiles& files,
                                                      const base::Environment& variables);

// Returns "NAME=value" entries. Fails as long as `batchai run` has not written the file.
[[nodiscard]] base::Result<base::Environment> read_step_variables(const JobFiles& files);

}  // namespace batchai::record
