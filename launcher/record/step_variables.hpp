// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/process.hpp"
#include "record/job_files.hpp"

// What `batchai run` adds to the environment of its steps, as a file in the job's directory, for
// steps that others start in the same job: `batchai job node exec`.
namespace batchai::record {

[[nodiscard]] base::Result<void> write_step_variables(const JobFiles& files,
                                                      const base::Environment& variables);

// "NAME=value" entries. There is no file while `batchai run` has not come so far.
[[nodiscard]] base::Result<base::Environment> read_step_variables(const JobFiles& files);

}  // namespace batchai::record
