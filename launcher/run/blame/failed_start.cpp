// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/failed_start.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.hpp"
#include "base/own_directory.hpp"
#include "plan/array_task.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "run/allocation.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::run {

void record_failed_start(const std::string& plan_path, const base::Error& error) {
    record::JobFiles files(std::filesystem::path(plan_path).parent_path());
    const auto variable = from_environment("SLURM_ARRAY_TASK_ID").value_or("");
    if (const auto task = plan::array_task_number(variable)) files = files.array_task(*task);
    const auto job_id = from_environment("SLURM_JOB_ID");
    if (!job_id || files.directory().empty() ||
        !base::check_own_directory(std::filesystem::path(plan_path).parent_path().string()))
        return;
    record::Attempt attempt;
    if (const auto restarts = from_environment("SLURM_RESTART_COUNT"))
        attempt.number = std::atoi(restarts->c_str()) + 1;
    attempt.slurm_job_id = *job_id;
    if (auto nodes = slurm::expand_hostlist(from_environment("SLURM_JOB_NODELIST").value_or("")))
        attempt.nodes = std::move(*nodes);
    attempt.start = base::now();
    attempt.end = attempt.start;
    attempt.exit_code = static_cast<int>(error.exit_code);
    attempt.ended_by = record::EndedBy::start;
    base::Error one_line = error;
    one_line.hint.clear();
    attempt.failure = record::Failure{.code = "JobFailed",
                                      .message = "The job could not be started",
                                      .phase = "start",
                                      .node = attempt.nodes.empty() ? "" : attempt.nodes.front(),
                                      .first_error_line = one_line.text()};
    const auto written = base::make_directories(files.attempts(), 0700).and_then([&] {
        return base::write_atomically(files.attempt(attempt.number), to_json(attempt));
    });
    if (!written) std::fprintf(stderr, "batchai: warning: %s\n", written.error().text().c_str());
}

}  // namespace batchai::run
