// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_view.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "base/record.hpp"
#include "base/text.hpp"
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

JobView make_view(store::Job job, std::optional<slurm::JobStatus> status,
                  std::optional<record::Attempt> attempt) {
    JobView view;
    view.evidence = evidence_of(job, std::move(status), attempt);
    view.job = std::move(job);
    view.attempt = std::move(attempt);
    view.state = slurm::execution_state(view.evidence);
    return view;
}

void take_task(JobView& view, const TaskView& task) {
    view.task = task.number;
    view.attempt = task.attempt;
    view.evidence = task.evidence;
}

JobView make_array_view(store::Job job, std::vector<TaskView> tasks) {
    JobView view;
    view.job = std::move(job);
    view.state = slurm::combined_state(count_tasks(tasks));
    if (!tasks.empty()) take_task(view, representative(tasks, view.state));
    view.tasks = std::move(tasks);
    return view;
}

}  // namespace

std::optional<base::Time> JobView::start() const {
    if (state == slurm::ExecutionState::queued) return {};
    std::optional<base::Time> first;
    for (const TaskView& other : tasks) {
        const auto time = start_of(other);
        if (time && (!first || *time < *first)) first = time;
    }
    if (first) return first;
    if (attempt) return attempt->start;
    if (evidence.slurm && evidence.slurm->start) return evidence.slurm->start;
    // The job was terminated while it was queued. Batch AI sets both times even then.
    return ended() ? end() : std::nullopt;
}

std::optional<base::Time> JobView::end() const {
    if (!ended()) return {};
    std::optional<base::Time> last;
    for (const TaskView& other : tasks) {
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
// Slurm's queue has forgotten tasks of some of them. If it does not answer, these are left out, and
// `left_out` becomes why.
base::Result<std::map<std::size_t, JobView>> view_arrays(const store::Store& store,
                                                         const slurm::Client& client,
                                                         const std::vector<store::Job>& jobs,
                                                         const base::Result<slurm::Jobs>& statuses,
                                                         std::optional<base::Error>& left_out) {
    std::map<std::size_t, JobView> out;
    const ArrayStatuses of_tasks = statuses ? array_statuses(*statuses) : ArrayStatuses();
    std::vector<std::size_t> unsure;
    std::vector<std::string> forgotten;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (!jobs[i].is_array) continue;
        auto tasks = TRY(view_tasks(store, jobs[i], of_tasks));
        if (needs_accounting(tasks)) {
            if (!statuses) return tl::unexpected(statuses.error());
            unsure.push_back(i);
            for (std::string& id : slurm_ids_of(jobs[i]))
                forgotten.push_back(std::move(id));
        }
        out.emplace(i, make_array_view(jobs[i], std::move(tasks)));
    }
    if (unsure.empty()) return out;
    slurm::Jobs all = *statuses;
    auto accounted = client.accounted_jobs(forgotten);
    if (!accounted) {
        left_out = accounted.error();
        for (const std::size_t i : unsure)
            out.erase(i);
        return out;
    }
    all.merge(*accounted);
    const ArrayStatuses more = array_statuses(all);
    for (const std::size_t i : unsure)
        out[i] = make_array_view(jobs[i], TRY(view_tasks(store, jobs[i], more)));
    return out;
}

}  // namespace

base::Result<std::vector<JobView>> view_jobs(const store::Store& store, const slurm::Client& client,
                                             std::vector<store::Job> jobs, AskedJobs asked,
                                             std::optional<base::Error>* left_out) {
    if (jobs.empty()) return std::vector<JobView>();
    std::vector<std::string> ids;
    ids.reserve(jobs.size());
    base::Time first = jobs.front().creation_time;
    for (const auto& job : jobs) {
        for (std::string& id : slurm_ids_of(job))
            ids.push_back(std::move(id));
        first = std::min(first, job.creation_time);
    }
    std::optional<base::Error> unaccounted;
    // Slurm is asked in another thread while the records are read.
    auto answer = std::async(std::launch::async, [&]() -> base::Result<slurm::Jobs> {
        slurm::Jobs known;
        if (asked.valid())
            known = TRY(asked.get());
        else if (ids.size() > slurm::Client::many_jobs)
            known = TRY(client.jobs_of_caller(first));
        return client.jobs(ids, std::move(known), &unaccounted);
    });
    Attempts attempts(jobs.size());
    const auto read = [&](std::size_t i) {
        if (!jobs[i].is_array) attempts[i] = record::latest_attempt(store.job_files(jobs[i].key));
    };
    base::in_parallel(jobs.size(), read);
    auto statuses = answer.get();
    std::optional<base::Error> why;  // some job is left out
    auto arrays = TRY(view_arrays(store, client, jobs, statuses, why));
    std::vector<JobView> views;
    views.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (const auto array = arrays.find(i); array != arrays.end()) {
            views.push_back(std::move(array->second));
            continue;
        }
        if (jobs[i].is_array) continue;
        std::optional<slurm::JobStatus> status;
        if (statuses) {
            const auto found = statuses->find(jobs[i].slurm_job_id);
            if (found != statuses->end()) status = std::move(found->second);
        }
        if (attempts[i] && may_be_old(status, *attempts[i])) read(i);
        auto attempt = TRY(std::move(attempts[i]));
        if (!statuses && !ended_by_record(attempt)) return tl::unexpected(statuses.error());
        if (unaccounted && !status && !ended_by_record(attempt)) {
            why = unaccounted;
            continue;
        }
        views.push_back(make_view(std::move(jobs[i]), std::move(status), std::move(attempt)));
    }
    if (why && left_out == nullptr) return tl::unexpected(std::move(*why));
    if (left_out != nullptr) *left_out = std::move(why);
    return views;
}

base::Result<std::vector<JobView>> view_jobs_of(const store::Store& store,
                                                const slurm::Client& client,
                                                const store::ExperimentKey& key, bool& complete) {
    AskedJobs asked;
    const std::vector<std::string> names = TRY(store.job_names(key));
    if (names.size() > slurm::Client::many_jobs) {
        const auto experiment = TRY(store.get<store::Experiment>(key));
        asked = std::async(std::launch::async, [&client, since = experiment.creation_time] {
            return client.jobs_of_caller(since);
        });
    }
    std::vector<base::Error> unreadable;
    auto jobs = TRY(store.jobs(key, names, &unreadable));
    for (const base::Error& error : unreadable)
        cli::say_error("a job is left out, because its record cannot be read: " + error.text());
    std::optional<base::Error> left_out;
    const std::size_t all = jobs.size();
    auto views = TRY(view_jobs(store, client, std::move(jobs), std::move(asked), &left_out));
    if (left_out)
        cli::say_error(
            fmt::format("{} of {} jobs are left out, because only accounting knows "
                        "whether they, or tasks of them, have ended: {}",
                        all - views.size(), all, left_out->text()));
    complete = unreadable.empty() && !left_out;
    return views;
}

namespace {

// Makes the view of an array job that of one task.
base::Result<void> choose_task(JobView& view, int number) {
    const TaskView task = TRY(task_of(view, number));
    take_task(view, task);
    view.state = task.state;
    view.tasks.clear();
    return {};
}

}  // namespace

base::Result<TaskView> task_of(const JobView& view, int number) {
    if (!view.job.is_array) return tl::unexpected(not_an_array(view.job.key));
    std::vector<int> known;
    for (const TaskView& task : view.tasks) {
        if (task.number == number) return task;
        known.push_back(task.number);
    }
    return base::fail(fmt::format("the job has no task {}", number), view.job.key.job,
                      "its tasks are " + base::number_ranges(known), base::ExitCode::not_found);
}

namespace {

// Adds the end of the last attempt as `batchai run` has left it with Slurm, because it could not
// write the record.
void look_for_last_words(const slurm::Client& client, JobView& view) {
    const bool recorded = view.attempt && view.attempt->end;
    if (view.state != slurm::ExecutionState::failed || !view.evidence.slurm || recorded) return;
    const auto comment =
        slurm::JobId::parse(view.evidence.slurm->id).and_then([&](const slurm::JobId& job) {
            return client.comment(job);
        });
    auto told = comment ? record::end_in_comment(*comment) : std::nullopt;
    if (!told || (view.attempt && told->number != view.attempt->number)) return;
    // The comment stays when the job is queued again, and then tells of an earlier attempt.
    if (told->number <= view.evidence.slurm->restart_count) return;
    if (view.attempt) {
        told->nodes = view.attempt->nodes;
        told->phases = view.attempt->phases;
    }
    view.attempt = std::move(told);
    view.evidence.attempt = slurm::AttemptView{.number = view.evidence.slurm->restart_count + 1,
                                               .exit_code = view.attempt->exit_code,
                                               .ended_by = view.attempt->ended_by};
}

}  // namespace

base::Result<JobView> view_job(const store::Store& store, const slurm::Client& client,
                               const store::JobKey& key, std::optional<int> task) {
    auto job = TRY(store.get<store::Job>(key));
    auto views = TRY(view_jobs(store, client, {std::move(job)}));
    JobView view = std::move(views.front());
    if (task) TRY(choose_task(view, *task));
    look_for_last_words(client, view);
    if (view.ended()) {
        view.not_written = record::failure_notes(files_of(store, key, view.task));
        std::erase_if(view.not_written, [](const record::FailureNote& note) {
            return note.code != record::data_not_written;
        });
    }
    return view;
}

namespace {

using slurm::ExecutionState;

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

base::Value execution_info(const JobView& view) {
    if (view.state == ExecutionState::queued) return nullptr;
    const auto code = view.exit_code();
    base::Value info = base::Value::Object{{"endTime", base::to_value(view.end())},
                                           {"errors", job_errors(view)},
                                           {"exitCode", code ? base::Value(*code) : base::Value()},
                                           {"startTime", base::to_value(view.start())}};
    if (view.attempt && !view.attempt->warnings.empty())
        info.set("warnings",
                 base::Value::Array(view.attempt->warnings.begin(), view.attempt->warnings.end()));
    if (view.attempt && !view.attempt->alarms.empty())
        info.set("alarms", base::to_value(view.attempt->alarms));
    if (view.attempt && !view.attempt->losses.empty())
        info.set("losses", base::to_value(view.attempt->losses));
    return info;
}

base::Value pending_reason(const slurm::JobStatus& status) {
    const auto words = slurm::pending_reason_in_words(status.reason);
    return base::Value::Object{
        {"expectedStart", base::to_value(status.start)},
        {"hint", words.advice.empty() ? base::Value() : base::Value(words.advice)},
        {"message", words.sentence},
        {"reason", status.reason}};
}

base::Time transition_time(const JobView& view) {
    if (const auto end = view.end()) return *end;
    if (const auto start = view.start()) return *start;
    return view.job.creation_time;
}

std::string path_segment(const store::Job& job) {
    return plan::Identity{job.subscription, job.key.group, job.key.workspace, job.key.experiment,
                          job.key.job,      job.cluster,   job.uuid}
        .path_segment();
}

base::Value errors_of_run(const JobView& view) {
    const auto words = slurm::failure_code(view.evidence);
    if (!words) return nullptr;
    const auto by = slurm::ended_by(view.evidence);
    const auto& attempt = view.attempt;
    // When the user stops a job, its ranks fail as a consequence. Those failures are not reported.
    const auto* const failure =
        attempt && attempt->failure && by != record::EndedBy::user ? &*attempt->failure : nullptr;
    base::Value::Array details{detail("EndedBy", std::string(base::word_of(by)))};
    if (view.task) details.push_back(detail("Task", std::to_string(*view.task)));
    if (failure != nullptr) {
        for (auto& more : failure_details(*failure))
            details.push_back(std::move(more));
    }
    const bool by_the_record = failure != nullptr && by == attempt->ended_by.value_or(by);
    if (by_the_record) return error_value(failure->code, failure->message, std::move(details));
    if (view.evidence.slurm && !view.evidence.slurm->state_text.empty())
        details.push_back(detail("SlurmState", view.evidence.slurm->state_text));
    return error_value(words->code, words->message, std::move(details));
}

}  // namespace

base::Value job_errors(const JobView& view) {
    base::Value errors = errors_of_run(view);
    const bool said = view.attempt && view.attempt->failure &&
                      view.attempt->failure->code == record::data_not_written;
    if (said || view.not_written.empty()) return errors;
    base::Value::Array all = errors.array() == nullptr ? base::Value::Array() : *errors.array();
    for (const record::FailureNote& note : view.not_written)
        all.push_back(base::Value::Object{
            {"code", note.code},
            {"details",
             base::Value::Array{detail("Node", note.node), detail("FirstErrorLine", note.text)}},
            {"message", std::string(record::data_not_written_message)}});
    return all;
}

base::Result<base::Value> attempts_value(const store::Store& store, const JobView& view) {
    auto attempts = TRY(record::all_attempts(files_of(store, view.job.key, view.task)));
    // The end of the newest may be known although its record lacks it.
    if (view.attempt && view.attempt->end && !view.task) {
        if (attempts.empty() || attempts.back().number < view.attempt->number)
            attempts.push_back(*view.attempt);
        else if (attempts.back().number == view.attempt->number)
            attempts.back() = *view.attempt;
    }
    base::Value::Array out;
    for (const record::Attempt& attempt : attempts) {
        const bool newest = &attempt == &attempts.back();
        base::Value by;
        base::Value message;
        if (newest && view.ended()) {
            // The end of the newest attempt is the job's end. It is described in the words of
            // executionInfo.
            by = base::word_of(slurm::ended_by(view.evidence));
            const base::Value errors = job_errors(view);
            if (errors.array() != nullptr) message = errors.array()->front()["message"];
        } else if (!newest || attempt.ended_by) {
            const auto ended_by = attempt.ended_by.value_or(record::EndedBy::unknown);
            by = base::word_of(ended_by);
            message = attempt.failure ? attempt.failure->message
                                      : std::string(record::words_of(ended_by).message);
        }
        base::Value::Object described{
            {"attempt", attempt.number},
            {"endTime", base::to_value(attempt.end)},
            {"endedBy", std::move(by)},
            {"exitCode", attempt.exit_code ? base::Value(*attempt.exit_code) : base::Value()},
            {"message", std::move(message)},
            {"retry", attempt.retried && !attempt.retried->message.empty()
                          ? base::Value(attempt.retried->message)
                          : base::Value()},
            {"startTime", base::to_value(attempt.start)}};
        if (attempt.software)
            described.emplace_back("software", record::to_value(*attempt.software));
        out.emplace_back(std::move(described));
    }
    return base::Value(std::move(out));
}

namespace {

// Adds to the properties of the job what is known of it.
base::Value described(const JobView& view, base::Value value) {
    const auto& job = view.job;
    base::Value cluster;
    if (const auto key = job.cluster_key())
        cluster = base::Value::Object{{"id", cluster_id(job.subscription, *key)},
                                      {"resourceGroup", key->group}};
    const auto created = base::to_iso8601(job.creation_time);
    value.set("cluster", cluster);
    value.set("creationTime", created);
    value.set("executionInfo", execution_info(view));
    value.set("executionState", slurm::to_string(view.state));
    value.set("executionStateTransitionTime", base::to_iso8601(transition_time(view)));
    value.set("id", job_id(job.subscription, job.key));
    value.set("jobOutputDirectoryPathSegment", path_segment(job));
    value.set("name", job.key.job);
    value.set("provisioningState", "succeeded");
    value.set("provisioningStateTransitionTime", created);
    value.set("resourceGroup", job.key.group);
    value.set("slurmJobId", job.slurm_job_id);
    value.set("type", "Microsoft.BatchAI/workspaces/experiments/jobs");
    if (view.state == ExecutionState::queued && view.evidence.slurm) {
        value.set("pendingReason", pending_reason(*view.evidence.slurm));
    }
    if (!view.tasks.empty()) value.set("taskStateCounts", to_value(count_tasks(view.tasks)));
    if (view.job.is_array && view.tasks.empty() && view.task) value.set("task", *view.task);
    return value;
}

}  // namespace

base::Value to_value(const JobView& view) {
    return described(view, view.job.properties);
}

base::Value to_value(JobView&& view) {
    base::Value properties = std::move(view.job.properties);
    return described(view, std::move(properties));
}

}  // namespace batchai::status
