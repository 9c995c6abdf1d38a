// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_view.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "cli/output/query.hpp"
#include "cli/output/terminal.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/last_words.hpp"
#include "slurm/pending_reason.hpp"
#include "status/resource_view.hpp"

namespace batchai::status {

namespace {

bool ended_by_record(const std::optional<record::Attempt>& attempt) {
    return attempt && attempt->end && attempt->exit_code && !attempt->runs_again();
}

JobReport make_report(store::Job job, std::optional<slurm::JobStatus> status,
                      std::optional<record::Attempt> attempt) {
    JobReport report;
    report.evidence = evidence_of(job, std::move(status), attempt);
    report.job = std::move(job);
    report.attempt = std::move(attempt);
    report.state = slurm::execution_state(report.evidence);
    return report;
}

void take_task(JobReport& report, const TaskReport& task) {
    report.task = task.number;
    report.attempt = task.attempt;
    report.evidence = task.evidence;
}

JobReport make_array_report(store::Job job, std::vector<TaskReport> tasks) {
    JobReport report;
    report.job = std::move(job);
    report.state = slurm::combined_state(count_tasks(tasks));
    if (!tasks.empty()) take_task(report, representative(tasks, report.state));
    report.tasks = std::move(tasks);
    return report;
}

}  // namespace

std::optional<base::Time> JobReport::start() const {
    if (state == slurm::ExecutionState::queued) return {};
    std::optional<base::Time> first;
    for (const TaskReport& other : tasks) {
        const auto time = start_of(other);
        if (time && (!first || *time < *first)) first = time;
    }
    if (first) return first;
    if (attempt) return attempt->start;
    if (evidence.slurm && evidence.slurm->start) return evidence.slurm->start;
    // The job was terminated while it was queued. Batch AI sets both times even then.
    return ended() ? end() : std::nullopt;
}

std::optional<base::Time> JobReport::end() const {
    if (!ended()) return {};
    std::optional<base::Time> last;
    for (const TaskReport& other : tasks) {
        const auto time = end_of(other);
        if (time && (!last || *time > *last)) last = time;
    }
    if (last) return last;
    if (attempt && attempt->end) return attempt->end;
    if (evidence.slurm && evidence.slurm->end) return evidence.slurm->end;
    return job.termination_requested;
}

record::JobFiles files_of(const store::Store& store, const store::JobKey& key,
                          std::optional<int> task) {
    const record::JobFiles files = store.job_files(key);
    return task ? files.array_task(*task) : files;
}

base::Error not_an_array(const store::JobKey& key) {
    return {"the job is not an array job, so it has no tasks", key.job, "leave --task out",
            base::ExitCode::usage};
}

namespace {

using Attempts = std::vector<base::Result<std::optional<record::Attempt>>>;

// Returns whether an attempt that was read before Slurm answered may be out of date. It is up to
// date if it says that the job has ended, and Slurm says the same or no longer knows the job.
bool may_be_old(const std::optional<slurm::JobStatus>& status,
                const std::optional<record::Attempt>& attempt) {
    return !ended_by_record(attempt) || (status && !slurm::is_final(status->state));
}

// Reports the array jobs among `jobs`, by their place there. Accounting is asked once for all if
// Slurm's queue has forgotten tasks of some of them.
base::Result<std::map<std::size_t, JobReport>> report_arrays(
    const store::Store& store, const slurm::Client& client, const std::vector<store::Job>& jobs,
    const base::Result<slurm::Jobs>& statuses) {
    std::map<std::size_t, JobReport> out;
    const ArrayStatuses of_tasks = statuses ? array_statuses(*statuses) : ArrayStatuses();
    std::vector<std::size_t> unsure;
    std::vector<std::string> forgotten;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (!jobs[i].is_array) continue;
        auto tasks = TRY(report_tasks(store, jobs[i], of_tasks));
        if (needs_accounting(tasks)) {
            if (!statuses) return tl::unexpected(statuses.error());
            unsure.push_back(i);
            for (std::string& id : slurm_ids_of(jobs[i]))
                forgotten.push_back(std::move(id));
        }
        out.emplace(i, make_array_report(jobs[i], std::move(tasks)));
    }
    if (unsure.empty()) return out;
    slurm::Jobs all = *statuses;
    auto accounted = TRY(client.accounted_jobs(forgotten));
    all.merge(accounted);
    const ArrayStatuses more = array_statuses(all);
    for (const std::size_t i : unsure)
        out[i] = make_array_report(jobs[i], TRY(report_tasks(store, jobs[i], more)));
    return out;
}

}  // namespace

base::Result<std::vector<JobReport>> report_jobs(const store::Store& store,
                                                 const slurm::Client& client,
                                                 std::vector<store::Job> jobs, AskedJobs asked) {
    if (jobs.empty()) return std::vector<JobReport>();
    std::vector<std::string> ids;
    ids.reserve(jobs.size());
    base::Time first = jobs.front().creation_time;
    for (const auto& job : jobs) {
        for (std::string& id : slurm_ids_of(job))
            ids.push_back(std::move(id));
        first = std::min(first, job.creation_time);
    }
    // Slurm is asked in another thread while the records are read.
    auto answer = std::async(std::launch::async, [&]() -> base::Result<slurm::Jobs> {
        slurm::Jobs known;
        if (asked.valid())
            known = TRY(asked.get());
        else if (ids.size() > slurm::Client::many_jobs)
            known = TRY(client.jobs_of_caller(first));
        return client.jobs(ids, std::move(known));
    });
    Attempts attempts(jobs.size());
    const auto read = [&](std::size_t i) {
        if (!jobs[i].is_array) attempts[i] = record::latest_attempt(store.job_files(jobs[i].key));
    };
    base::in_parallel(jobs.size(), read);
    auto statuses = answer.get();
    auto arrays = TRY(report_arrays(store, client, jobs, statuses));
    std::vector<JobReport> reports;
    reports.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (const auto array = arrays.find(i); array != arrays.end()) {
            reports.push_back(std::move(array->second));
            continue;
        }
        std::optional<slurm::JobStatus> status;
        if (statuses) {
            const auto found = statuses->find(jobs[i].slurm_job_id);
            if (found != statuses->end()) status = std::move(found->second);
        }
        if (attempts[i] && may_be_old(status, *attempts[i])) read(i);
        auto attempt = TRY(std::move(attempts[i]));
        if (!statuses && !ended_by_record(attempt)) return tl::unexpected(statuses.error());
        reports.push_back(make_report(std::move(jobs[i]), std::move(status), std::move(attempt)));
    }
    return reports;
}

base::Result<std::vector<JobReport>> report_jobs_of(const store::Store& store,
                                                    const slurm::Client& client,
                                                    const store::ExperimentKey& key,
                                                    bool& complete) {
    AskedJobs asked;
    const std::vector<std::string> names = TRY(store.job_names(key));
    if (names.size() > slurm::Client::many_jobs) {
        const auto experiment = TRY(store.experiment(key));
        asked = std::async(std::launch::async, [&client, since = experiment.creation_time] {
            return client.jobs_of_caller(since);
        });
    }
    std::vector<base::Error> unreadable;
    auto jobs = TRY(store.jobs(key, names, &unreadable));
    for (const base::Error& error : unreadable)
        cli::say_error("a job is left out, because its record cannot be read: " + error.text());
    complete = unreadable.empty();
    return report_jobs(store, client, std::move(jobs), std::move(asked));
}

namespace {

// Makes the report of an array job that of one task.
base::Result<void> choose_task(JobReport& report, int number) {
    const TaskReport task = TRY(task_of(report, number));
    take_task(report, task);
    report.state = task.state;
    report.tasks.clear();
    return {};
}

}  // namespace

base::Result<TaskReport> task_of(const JobReport& report, int number) {
    if (!report.job.is_array) return tl::unexpected(not_an_array(report.job.key));
    std::vector<int> known;
    for (const TaskReport& task : report.tasks) {
        if (task.number == number) return task;
        known.push_back(task.number);
    }
    return base::fail(fmt::format("the job has no task {}", number), report.job.key.job,
                      "its tasks are " + slurm::array_indexes(known), base::ExitCode::not_found);
}

namespace {

// Adds the end of the last attempt as `batchai run` has left it with Slurm, because it could not
// write the record.
void look_for_last_words(const slurm::Client& client, JobReport& report) {
    const bool recorded = report.attempt && report.attempt->end;
    if (report.state != slurm::ExecutionState::failed || !report.evidence.slurm || recorded) return;
    const auto comment = client.comment(report.evidence.slurm->id);
    auto told = comment ? record::end_in_comment(*comment) : std::nullopt;
    if (!told || (report.attempt && told->number != report.attempt->number)) return;
    // The comment stays when the job is queued again, and then tells of an earlier attempt.
    if (told->number <= report.evidence.slurm->restart_count) return;
    if (report.attempt) {
        told->nodes = report.attempt->nodes;
        told->phases = report.attempt->phases;
    }
    report.attempt = std::move(told);
    report.evidence.attempt = slurm::AttemptView{.number = report.evidence.slurm->restart_count + 1,
                                                 .exit_code = report.attempt->exit_code,
                                                 .ended_by = report.attempt->ended_by};
}

}  // namespace

base::Result<JobReport> report_job(const store::Store& store, const slurm::Client& client,
                                   const store::JobKey& key, std::optional<int> task) {
    auto job = TRY(store.job(key));
    auto reports = TRY(report_jobs(store, client, {std::move(job)}));
    JobReport report = std::move(reports.front());
    if (task) TRY(choose_task(report, *task));
    look_for_last_words(client, report);
    if (report.ended()) {
        report.not_written = record::failure_notes(files_of(store, key, report.task));
        std::erase_if(report.not_written, [](const record::FailureNote& note) {
            return note.code != record::data_not_written;
        });
    }
    return report;
}

namespace {

using slurm::ExecutionState;

base::Value time_value(const std::optional<base::Time>& time) {
    return time ? base::Value(base::to_iso8601(*time)) : base::Value();
}

base::Value detail(const char* name, std::string value) {
    return base::Value::Object{{"name", name}, {"value", std::move(value)}};
}

base::Value::Array failure_details(const record::Failure& failure) {
    base::Value::Array details;
    if (!failure.phase.empty()) details.push_back(detail("Phase", failure.phase));
    if (!failure.node.empty()) details.push_back(detail("Node", failure.node));
    if (failure.rank) details.push_back(detail("Rank", std::to_string(*failure.rank)));
    if (failure.signal) details.push_back(detail("Signal", std::to_string(*failure.signal)));
    if (failure.exit_code)
        details.push_back(detail("ExitCode", std::to_string(*failure.exit_code)));
    if (!failure.first_error_line.empty()) {
        details.push_back(detail("FirstErrorLine", failure.first_error_line));
    }
    return details;
}

base::Value error_value(const std::string& code, const std::string& message, base::Value details) {
    return base::Value::Array{
        base::Value::Object{{"code", code}, {"details", std::move(details)}, {"message", message}}};
}

base::Value execution_info(const JobReport& report) {
    if (report.state == ExecutionState::queued) return nullptr;
    const auto code = report.exit_code();
    base::Value info = base::Value::Object{{"endTime", time_value(report.end())},
                                           {"errors", job_errors(report)},
                                           {"exitCode", code ? base::Value(*code) : base::Value()},
                                           {"startTime", time_value(report.start())}};
    if (report.attempt && !report.attempt->warnings.empty())
        info.set("warnings", base::Value::Array(report.attempt->warnings.begin(),
                                                report.attempt->warnings.end()));
    return info;
}

base::Value pending_reason(const slurm::JobStatus& status) {
    const auto words = slurm::pending_reason_in_words(status.reason);
    return base::Value::Object{
        {"expectedStart", time_value(status.start)},
        {"hint", words.advice.empty() ? base::Value() : base::Value(words.advice)},
        {"message", words.sentence},
        {"reason", status.reason}};
}

base::Time transition_time(const JobReport& report) {
    if (const auto end = report.end()) return *end;
    if (const auto start = report.start()) return *start;
    return report.job.creation_time;
}

std::string path_segment(const store::Job& job) {
    return plan::Identity{job.subscription, job.key.group, job.key.workspace, job.key.experiment,
                          job.key.job,      job.cluster,   job.uuid}
        .path_segment();
}

base::Value errors_of_run(const JobReport& report) {
    const auto words = slurm::failure_code(report.evidence);
    if (!words) return nullptr;
    const auto by = slurm::ended_by(report.evidence);
    const auto& attempt = report.attempt;
    // When the user stops a job, its ranks fail as a consequence. Those failures are not reported.
    const auto* const failure =
        attempt && attempt->failure && by != record::EndedBy::user ? &*attempt->failure : nullptr;
    base::Value::Array details{detail("EndedBy", std::string(base::word_of(by)))};
    if (report.task) details.push_back(detail("Task", std::to_string(*report.task)));
    if (failure != nullptr) {
        for (auto& more : failure_details(*failure))
            details.push_back(std::move(more));
    }
    const bool by_the_record = failure != nullptr && by == attempt->ended_by.value_or(by);
    if (by_the_record) return error_value(failure->code, failure->message, std::move(details));
    if (report.evidence.slurm && !report.evidence.slurm->state_text.empty())
        details.push_back(detail("SlurmState", report.evidence.slurm->state_text));
    return error_value(words->code, words->message, std::move(details));
}

}  // namespace

base::Value job_errors(const JobReport& report) {
    base::Value errors = errors_of_run(report);
    const bool said = report.attempt && report.attempt->failure &&
                      report.attempt->failure->code == record::data_not_written;
    if (said || report.not_written.empty()) return errors;
    base::Value::Array all = errors.array() == nullptr ? base::Value::Array() : *errors.array();
    for (const record::FailureNote& note : report.not_written)
        all.push_back(base::Value::Object{
            {"code", note.code},
            {"details",
             base::Value::Array{detail("Node", note.node), detail("FirstErrorLine", note.text)}},
            {"message", std::string(record::data_not_written_message)}});
    return all;
}

base::Result<base::Value> attempts_value(const store::Store& store, const JobReport& report) {
    auto attempts = TRY(record::all_attempts(files_of(store, report.job.key, report.task)));
    // The end of the newest may be known although its record lacks it.
    if (report.attempt && report.attempt->end && !report.task) {
        if (attempts.empty() || attempts.back().number < report.attempt->number)
            attempts.push_back(*report.attempt);
        else if (attempts.back().number == report.attempt->number)
            attempts.back() = *report.attempt;
    }
    base::Value::Array out;
    for (const record::Attempt& attempt : attempts) {
        const bool newest = &attempt == &attempts.back();
        base::Value by;
        base::Value message;
        if (newest && report.ended()) {
            // The end of the newest attempt is the job's end. It is described in the words of
            // executionInfo.
            by = base::word_of(slurm::ended_by(report.evidence));
            const base::Value errors = job_errors(report);
            if (errors.array() != nullptr) message = errors.array()->front()["message"];
        } else if (!newest || attempt.ended_by) {
            const auto ended_by = attempt.ended_by.value_or(record::EndedBy::unknown);
            by = base::word_of(ended_by);
            message = attempt.failure ? attempt.failure->message
                                      : std::string(record::words_of(ended_by).message);
        }
        base::Value::Object described{
            {"attempt", attempt.number},
            {"endTime", time_value(attempt.end)},
            {"endedBy", std::move(by)},
            {"exitCode", attempt.exit_code ? base::Value(*attempt.exit_code) : base::Value()},
            {"message", std::move(message)},
            {"retry", attempt.retried && !attempt.retried->message.empty()
                          ? base::Value(attempt.retried->message)
                          : base::Value()},
            {"startTime", time_value(attempt.start)}};
        if (attempt.software)
            described.emplace_back("software", record::to_value(*attempt.software));
        out.emplace_back(std::move(described));
    }
    return base::Value(std::move(out));
}

base::Value to_value(const JobReport& report) {
    const auto& job = report.job;
    base::Value value = job.properties;
    base::Value cluster;
    if (const auto key = job.cluster_key())
        cluster = base::Value::Object{{"id", cluster_id(job.subscription, *key)},
                                      {"resourceGroup", key->group}};
    const auto created = base::to_iso8601(job.creation_time);
    value.set("cluster", cluster);
    value.set("creationTime", created);
    value.set("executionInfo", execution_info(report));
    value.set("executionState", slurm::to_string(report.state));
    value.set("executionStateTransitionTime", base::to_iso8601(transition_time(report)));
    value.set("id", job_id(job.subscription, job.key));
    value.set("jobOutputDirectoryPathSegment", path_segment(job));
    value.set("name", job.key.job);
    value.set("provisioningState", "succeeded");
    value.set("provisioningStateTransitionTime", created);
    value.set("resourceGroup", job.key.group);
    value.set("slurmJobId", job.slurm_job_id);
    value.set("type", "Microsoft.BatchAI/workspaces/experiments/jobs");
    if (report.state == ExecutionState::queued && report.evidence.slurm) {
        value.set("pendingReason", pending_reason(*report.evidence.slurm));
    }
    if (!report.tasks.empty()) value.set("taskStateCounts", to_value(count_tasks(report.tasks)));
    if (report.job.is_array && report.tasks.empty() && report.task) value.set("task", *report.task);
    return value;
}

}  // namespace batchai::status
