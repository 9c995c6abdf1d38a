// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/array_view.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/parallel.hpp"
#include "base/record.hpp"
#include "plan/plan_file.hpp"
#include "record/job_files.hpp"

namespace batchai::status {

using slurm::ExecutionState;

ArrayStatuses array_statuses(const slurm::Jobs& jobs) {
    std::vector<const slurm::JobStatus*> of_arrays;
    for (const auto& [id, status] : jobs) {
        if (!status.array_id.empty()) of_arrays.push_back(&status);
    }
    // A task that has begun has an entry of its own, which comes first.
    std::stable_sort(of_arrays.begin(), of_arrays.end(), [](const auto* left, const auto* right) {
        return left->array_tasks.size() < right->array_tasks.size();
    });
    ArrayStatuses out;
    for (const slurm::JobStatus* const status : of_arrays) {
        const auto of_task = std::make_shared<slurm::JobStatus>(*status);
        // Each task's view has a copy, so thousands that wait together would have millions of
        // numbers.
        of_task->array_tasks = std::vector<int>();
        auto& tasks = out[status->array_id];
        for (const int number : status->array_tasks)
            tasks.try_emplace(number, of_task);
    }
    return out;
}

std::vector<std::string> slurm_ids_of(const store::Job& job) {
    std::vector<std::string> out{job.slurm_job_id};
    for (const store::ArrayRun& run : job.array_runs)
        out.push_back(run.slurm_job_id);
    return out;
}

namespace {

// Returns the option "array" of a job whose record does not have it.
std::string array_in_plan(const record::JobFiles& files) {
    const auto text = base::read_file(files.plan());
    if (!text) return {};
    const auto plan = plan::plan_from_json(*text);
    if (!plan) return {};
    for (const plan::SlurmOption& option : plan->allocation.options) {
        if (option.name == "array") return option.value;
    }
    return {};
}

}  // namespace

base::Result<std::vector<int>> tasks_of(const store::Store& store, const store::Job& job,
                                        const ArrayStatuses& statuses) {
    const record::JobFiles files = store.job_files(job.key);
    const std::string text = job.array.empty() ? array_in_plan(files) : job.array;
    if (auto tasks = slurm::expand_array_indexes(text)) return std::move(*tasks);
    // The option has a form that only Slurm knows, so only what has begun or still waits is known.
    std::set<int> seen;
    for (const int number : TRY(files.started_array_tasks()))
        seen.insert(number);
    for (const std::string& id : slurm_ids_of(job)) {
        const auto found = statuses.find(id);
        if (found == statuses.end()) continue;
        for (const auto& [number, status] : found->second)
            seen.insert(number);
    }
    return std::vector<int>(seen.begin(), seen.end());
}

std::vector<TaskRun> runs_of(const store::Job& job, const std::vector<int>& tasks) {
    std::vector<TaskRun> out(tasks.size(), TaskRun{.slurm_job_id = job.slurm_job_id});
    for (const store::ArrayRun& run : job.array_runs) {
        for (const int number :
             slurm::expand_array_indexes(run.tasks).value_or(std::vector<int>())) {
            const auto at = std::lower_bound(tasks.begin(), tasks.end(), number);
            if (at == tasks.end() || *at != number) continue;
            out[static_cast<std::size_t>(at - tasks.begin())] = {
                .slurm_job_id = run.slurm_job_id, .attempts_before = run.attempts_before};
        }
    }
    return out;
}

slurm::JobEvidence evidence_of(const store::Job& job, std::optional<slurm::JobStatus> status,
                               std::optional<record::Attempt>& attempt, int attempts_before) {
    slurm::JobEvidence evidence;
    evidence.slurm = std::move(status);
    evidence.script_is_ours = true;
    // The attempts of an earlier array are over.
    if (attempt && attempt->number <= attempts_before) attempt.reset();
    if (attempt) {
        evidence.attempt = slurm::AttemptView{
            .number = attempt->number - attempts_before,
            .exit_code = attempt->end ? attempt->exit_code : std::optional<int>(),
            .ended_by = attempt->ended_by,
            .runs_again = attempt->runs_again(),
            .program_began = attempt->program_began()};
    }
    if (evidence.attempt && evidence.slurm &&
        slurm::requeued_since(*evidence.slurm, *evidence.attempt)) {
        evidence.attempt.reset();
        attempt.reset();
    }
    evidence.owner = getuid();
    evidence.termination_requested = job.termination_requested.has_value();
    return evidence;
}

base::Result<std::vector<TaskView>> view_tasks(const store::Store& store, const store::Job& job,
                                               const ArrayStatuses& statuses) {
    const record::JobFiles files = store.job_files(job.key);
    const std::vector<int> numbers = TRY(tasks_of(store, job, statuses));
    const std::vector<TaskRun> runs = runs_of(job, numbers);
    const std::vector<int> begun = TRY(files.started_array_tasks());
    const std::set<int> started(begun.begin(), begun.end());
    std::vector<TaskView> tasks(numbers.size());
    std::vector<base::Result<void>> read(numbers.size());
    base::in_parallel(numbers.size(), [&](std::size_t i) {
        TaskView& task = tasks[i];
        task.number = numbers[i];
        if (started.contains(task.number)) {
            auto attempt = record::latest_attempt(files.array_task(task.number));
            if (!attempt) {
                read[i] = tl::unexpected(attempt.error());
                return;
            }
            task.attempt = std::move(*attempt);
        }
        std::optional<slurm::JobStatus> status;
        bool left_array = false;
        if (const auto array = statuses.find(runs[i].slurm_job_id); array != statuses.end()) {
            const auto found = array->second.find(task.number);
            if (found != array->second.end()) status = *found->second;
            left_array = !status;
        }
        task.evidence = evidence_of(job, std::move(status), task.attempt, runs[i].attempts_before);
        // The attempts of an earlier array say nothing of this one.
        task.evidence.left_array = left_array && !task.evidence.attempt;
        // What ended before the user stopped the job was not ended by that.
        if (job.termination_requested && task.attempt && task.attempt->end &&
            *task.attempt->end < *job.termination_requested)
            task.evidence.termination_requested = false;
        task.state = slurm::execution_state(task.evidence);
    });
    for (base::Result<void>& result : read)
        TRY(std::move(result));
    return tasks;
}

bool needs_accounting(const std::vector<TaskView>& tasks) {
    return std::any_of(tasks.begin(), tasks.end(), [](const TaskView& task) {
        const bool by_record = task.evidence.attempt && task.evidence.attempt->exit_code;
        return !task.evidence.slurm && !by_record;
    });
}

slurm::TaskCounts count_tasks(const std::vector<TaskView>& tasks) {
    slurm::TaskCounts counts;
    for (const TaskView& task : tasks)
        counts.add(task.state);
    return counts;
}

const TaskView& representative(const std::vector<TaskView>& tasks, ExecutionState state) {
    const auto first_in = [&](ExecutionState wanted) {
        return std::find_if(tasks.begin(), tasks.end(),
                            [&](const TaskView& task) { return task.state == wanted; });
    };
    auto found = first_in(state);
    // Some tasks have ended, and all others wait.
    if (found == tasks.end()) found = first_in(ExecutionState::queued);
    return found == tasks.end() ? tasks.front() : *found;
}

std::optional<base::Time> start_of(const TaskView& task) {
    if (task.state == ExecutionState::queued) return {};
    if (task.attempt) return task.attempt->start;
    return task.evidence.slurm ? task.evidence.slurm->start : std::nullopt;
}

std::optional<base::Time> end_of(const TaskView& task) {
    if (!task.ended()) return {};
    if (task.attempt && task.attempt->end) return task.attempt->end;
    return task.evidence.slurm ? task.evidence.slurm->end : std::nullopt;
}

base::Value to_value(const slurm::TaskCounts& counts) {
    return base::Value::Object{{"failed", counts.failed},           {"queued", counts.queued},
                               {"running", counts.running},         {"succeeded", counts.succeeded},
                               {"terminating", counts.terminating}, {"total", counts.total()}};
}

base::Value to_value(const std::vector<TaskView>& tasks) {
    base::Value::Array out;
    for (const TaskView& task : tasks) {
        const auto code = slurm::exit_code(task.evidence);
        const auto& slurm = task.evidence.slurm;
        const auto nodes = task.attempt ? task.attempt->nodes
                           : slurm      ? slurm->nodes
                                        : std::vector<std::string>();
        out.push_back(base::Value::Object{
            {"task", task.number},
            {"executionState", slurm::to_string(task.state)},
            {"exitCode", code ? base::Value(*code) : base::Value()},
            {"node",
             nodes.empty() ? base::Value() : base::Value(fmt::format("{}", fmt::join(nodes, ",")))},
            {"startTime", base::to_value(start_of(task))},
            {"endTime", base::to_value(end_of(task))},
            {"slurmJobId", slurm ? base::Value(fmt::format("{}_{}", slurm->array_id, task.number))
                                 : base::Value()}});
    }
    return out;
}

}  // namespace batchai::status
