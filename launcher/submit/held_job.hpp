// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "base/process.hpp"
#include "plan/plan.hpp"
#include "record/job_files.hpp"
#include "slurm/client.hpp"

// How a job gets into Slurm, so that none runs without a record whenever this process is killed: it
// is submitted held, recorded, and then let go. What is found in Slurm without a record has not
// run, and is ended.
namespace batchai::submit {

// The signals that would otherwise end a process between a submission and its record.
inline constexpr std::initializer_list<int> signals_held_for_submission{SIGINT, SIGTERM, SIGHUP,
                                                                        SIGQUIT};

// Submits the plan with this batch script, calls `record` with Slurm's id of the job, and lets the
// job go. A job that the plan itself holds stays held. Jobs with the script that have no record are
// ended before. A job that fits no nodes is refused, as Slurm refuses one that is not held. Returns
// Slurm's id.
//
// If `record` fails, the job is ended. If Slurm does not let the job go, the error says so: the job
// is recorded by then, and stays held. While Slurm does not answer, that is tried again for a
// minute, or until one of the held signals arrives.
[[nodiscard]] base::Result<std::string> submit_and_record(
    const slurm::Client& client, plan::Plan plan, const std::string& script,
    const base::HeldSignals& held,
    const std::function<base::Result<void>(const std::string& id)>& record);

// Ends the jobs with this batch script that wait in Slurm, and says so. They have no record,
// because the process that has submitted them was killed before. Returns whether there were any. It
// is refused if one of them runs.
[[nodiscard]] base::Result<bool> end_unrecorded(const slurm::Client& client,
                                                const std::string& script);

// The same for the job whose create has left these files.
[[nodiscard]] base::Result<void> end_unrecorded_job(const slurm::Client& client,
                                                    const record::JobFiles& files);

}  // namespace batchai::submit
