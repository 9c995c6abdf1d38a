// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/run.hpp"

#include <cstdio>
#include <utility>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "plan/array_task.hpp"
#include "record/plan_file.hpp"
#include "run/attempt.hpp"
#include "run/blame/outside.hpp"
#include "run/context.hpp"

namespace batchai::run {

namespace {

base::Result<int> run_here(const RunOptions& options) {
    const auto task = plan::array_task_number(from_environment("SLURM_ARRAY_TASK_ID").value_or(""));
    const plan::Plan plan = TRY(record::read_plan(options.plan_path, options.digest, task));
    const Granted allocation = TRY(granted(from_environment, plan));
    SrunRunner steps;
    SlurmsWord outside(allocation.job_id, allocation.restart);
    LogDirectory logs(output_directory(plan));
    ExecutionLog log(logs, record::JobFiles(plan.directories.job_directory).node_logs().string(),
                     allocation.nodes);
    Context context{
        .plan = plan,
        .options = options,
        .granted = allocation,
        .steps = steps,
        .outside = outside,
        .logs = logs,
        .log = log,
        .elastic = TRY(plan::elastic_of(plan.environment, plan.allocation.nodes)),
        .ports = {.job = base::ReservedPort::reserve(), .ranks = base::ReservedPort::reserve()},
        .place = place_on(allocation.nodes)};
    if (allocation.restart > 0) {
        const auto settled = record::settle_earlier_attempt(context.files(), context.attempt(),
                                                            outside.why_restarted());
        if (!settled)
            std::fprintf(stderr, "batchai: warning: %s\n", settled.error().text().c_str());
    }
    record::Attempt attempt;
    attempt.number = context.attempt();
    attempt.slurm_job_id = allocation.job_id;
    attempt.nodes = allocation.nodes;
    attempt.start = base::now();
    Journal journal(context.files(), std::move(attempt));
    return run_attempt(context, journal);
}

}  // namespace

int run_job(const RunOptions& options) {
    const auto result = run_here(options);
    if (result) return *result;
    std::fprintf(stderr, "batchai: error: %s\n", result.error().text().c_str());
    record_failed_start(options.plan_path, result.error());
    return static_cast<int>(result.error().exit_code);
}

}  // namespace batchai::run
