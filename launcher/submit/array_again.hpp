// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "plan/plan.hpp"
#include "record/job_files.hpp"
#include "slurm/client.hpp"
#include "status/array_view.hpp"
#include "store/store.hpp"

// Tasks of an array job that have failed are run again by a Slurm array of their own, with the same
// plan and their own numbers: `sweep retry` and `job resume`.
namespace batchai::submit {

// Takes the lock without which two commands could queue the same tasks at the same time. It lasts
// as long as the file is open. It is refused while another command has it.
[[nodiscard]] base::Result<base::FileDescriptor> lock_tasks(const record::JobFiles& files);

// Queues `tasks` of `job`, of which there is at least one, records it, and says so; `noun` is what
// the user calls a task. No task starts before it is recorded, and no signal ends this process
// before it is said. The caller has the lock, and has read `job` since. `plan` is that of the whole
// job.
[[nodiscard]] base::Result<void> run_tasks_again(const store::Store& store,
                                                 const slurm::Client& client,
                                                 const plan::Plan& plan, const store::Job& job,
                                                 const std::vector<status::TaskView>& tasks,
                                                 std::string_view noun);

}  // namespace batchai::submit
