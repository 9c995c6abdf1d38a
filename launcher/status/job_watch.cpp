// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_watch.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cli/output/terminal.hpp"
#include "job/schema/checks.hpp"
#include "status/job_view.hpp"

namespace batchai::status {

namespace {

constexpr auto patience = std::chrono::minutes(5);
// Many tasks of an array may begin and end one after the other.
constexpr auto pause_for_tasks = std::chrono::seconds(2);

}  // namespace

// Notes changes until Slurm is asked.
base::Result<bool> JobWatch::record_of_a_task_changed() {
    const record::JobFiles files = store_.job_files(key_);
    const auto begun = TRY(files.started_array_tasks());
    const std::set<int> started(begun.begin(), begun.end());
    for (const TaskView& task : view_->tasks) {
        if (task.ended() || !started.contains(task.number)) continue;
        const auto attempt = TRY(record::latest_attempt(files.array_task(task.number)));
        if (!attempt) continue;
        // The phases of all tasks together change too often to ask Slurm each time.
        const std::pair now(attempt->number, attempt->end.has_value());
        auto& seen = seen_[task.number];
        if (seen != now) task_changed_ = true;
        seen = now;
    }
    return task_changed_;
}

base::Result<bool> JobWatch::record_changed() {
    if (view_ && !view_->tasks.empty()) return record_of_a_task_changed();
    auto attempt = TRY(record::latest_attempt(files_of(store_, key_, task_)));
    if (attempt == record_) return false;
    record_ = std::move(attempt);
    return true;
}

base::Result<JobView> JobWatch::look() {
    const auto changed = record_changed();
    const auto now = Clock::now();
    if (!changed) {
        // The record is removed with the job. The store's error then describes the cause better.
        const auto job = store_.get<store::Job>(key_);
        const bool gone = !job && job.error().exit_code == base::ExitCode::not_found;
        const base::Error& error = job ? changed.error() : job.error();
        // A file server may be away for a while, as Slurm may.
        if (!view_ || gone) return tl::unexpected(error);
        if (!silent_since_) {
            silent_since_ = now;
            cli::warn("the job's record cannot be read; trying again: " + error.text());
        }
        if (now - *silent_since_ > patience) return tl::unexpected(error);
        return *view_;
    }
    const bool of_tasks = view_ && !view_->tasks.empty();
    const bool ask_at_once = *changed && !(of_tasks && now < last_question_ + pause_for_tasks);
    if (view_ && !ask_at_once && now < next_question_) return *view_;
    last_question_ = now;
    task_changed_ = false;
    auto view = view_job(store_, client_, key_, task_);
    if (!view) {
        const bool gone = view.error().exit_code == base::ExitCode::not_found;
        if (!view_ || gone) return view;
        if (!silent_since_) {
            silent_since_ = now;
            cli::warn("Slurm does not answer; trying again: " + view.error().text());
        }
        if (now - *silent_since_ > patience) return view;
    } else {
        silent_since_.reset();
        view_ = std::move(*view);
    }
    pause_ = *changed ? std::chrono::milliseconds(1000) : pause_ * 3 / 2;
    pause_ = std::min(pause_, std::max(longest_pause_, std::chrono::milliseconds(1000)));
    next_question_ = now + pause_;
    return *view_;
}

namespace {

std::string string_or_empty(const base::Value& value) {
    const auto* string = value.string();
    return string == nullptr ? "" : *string;
}

}  // namespace

std::string python_time(base::Time time) {
    auto out = base::to_iso8601(time);
    out[out.find('T')] = ' ';
    return out;
}

std::string python_duration(base::Time::duration duration) {
    if (duration.count() < 0) duration = {};
    const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
    const auto fraction = (duration - seconds).count();
    auto out = job::format_duration(seconds);
    if (fraction != 0) out += fmt::format(".{:06}", fraction);
    return out;
}

std::string error_lines(const base::Value& errors) {
    std::string out;
    if (errors.array() == nullptr) return out;
    for (const auto& error : *errors.array()) {
        out += fmt::format("Error message: {}\n", string_or_empty(error["message"]));
        const auto* details = error["details"].array();
        if (details == nullptr || details->empty()) continue;
        out += "Details:\n";
        for (const auto& detail : *details)
            out += fmt::format("  {}: {}\n", string_or_empty(detail["name"]),
                               string_or_empty(detail["value"]));
    }
    return out;
}

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A batch script may take as long as KillWait to end, which is 30 s by default.
constexpr auto longest_wait = std::chrono::minutes(2);

// Only Slurm's state counts here, because the job's record says "ended" before the last process has
// exited.
bool gone(const slurm::JobStatus& status) {
    return slurm::is_final(status.state);
}

// Returns the id of a job that Slurm has not ended yet; empty if it has ended all.
base::Result<std::string> still_there(const slurm::Client& client,
                                      const std::vector<std::string>& ids,
                                      const std::vector<std::string>& arrays) {
    const auto statuses = TRY(client.jobs(ids));
    const auto waiting = std::find_if(statuses.begin(), statuses.end(),
                                      [](const auto& entry) { return !gone(entry.second); });
    if (waiting != statuses.end()) return waiting->first;
    for (const std::string& id : arrays) {
        const auto array = TRY(slurm::JobId::parse(id));
        if (TRY(client.is_queued(array))) return id;
    }
    return std::string();
}

base::Result<void> wait_until_gone(const slurm::Client& client, const std::vector<std::string>& ids,
                                   const std::vector<std::string>& arrays) {
    const auto deadline = steady_clock::now() + longest_wait;
    milliseconds pause(250);
    bool warned = false;
    while (true) {
        const auto waiting = still_there(client, ids, arrays);
        if (waiting && waiting->empty()) return {};
        // The request has been made. Slurm may be restarting.
        if (!waiting && !std::exchange(warned, true))
            cli::warn("Slurm does not answer; trying again: " + waiting.error().text());
        if (steady_clock::now() > deadline) {
            if (!waiting) return tl::unexpected(waiting.error());
            return base::fail(fmt::format("Slurm has not ended job {} after two minutes", *waiting),
                              "", "try again later; `squeue` shows what it waits for",
                              base::ExitCode::timed_out);
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, milliseconds(4000));
    }
}

}  // namespace

base::Result<void> stop_jobs(const store::Store& store, const slurm::Client& client,
                             const std::vector<store::Job>& jobs, bool wait) {
    if (jobs.empty()) return {};
    // The records alone are not enough: unless Slurm answers, nothing is stopped and nothing is
    // deleted.
    TRY(client.ping());
    const auto views = TRY(view_jobs(store, client, jobs));
    std::vector<std::string> ids;
    std::vector<std::string> arrays;
    for (const auto& view : views) {
        const auto& status = view.evidence.slurm;
        bool others = false;
        for (const TaskView& task : view.tasks)
            others =
                others || !task.ended() || (task.evidence.slurm && !gone(*task.evidence.slurm));
        // A task may have been queued again since Slurm was asked.
        for (const std::string& id : slurm_ids_of(view.job)) {
            const auto job = TRY(slurm::JobId::parse(id));
            others = others || (view.job.is_array && TRY(client.is_queued(job)));
        }
        const bool live = others || (status ? !gone(*status) : !view.ended());
        if (!live) continue;
        if (others || !view.ended()) {
            // The request is recorded before the job is cancelled, so that nobody sees the end
            // without its reason.
            TRY(store.update<store::Job>(view.job.key, [](store::Job& job) {
                if (!job.termination_requested) job.termination_requested = base::now();
            }));
            for (const std::string& id : slurm_ids_of(view.job)) {
                const auto job = TRY(slurm::JobId::parse(id));
                TRY(client.cancel(job));
            }
        }
        for (std::string& id : slurm_ids_of(view.job)) {
            if (others) arrays.push_back(id);
            ids.push_back(std::move(id));
        }
    }
    if (!wait || ids.empty()) return {};
    return wait_until_gone(client, ids, arrays);
}

base::Result<void> stop_task(const store::Store& store, const slurm::Client& client,
                             const store::Job& job, int task, bool wait) {
    TRY(client.ping());
    const auto view = TRY(view_job(store, client, job.key, task));
    const auto& status = view.evidence.slurm;
    if (status ? gone(*status) : view.ended()) return {};
    const auto array = TRY(slurm::JobId::parse(runs_of(job, {task}).front().slurm_job_id));
    TRY(client.cancel_tasks(array, {task}, false));
    const auto deadline = steady_clock::now() + longest_wait;
    milliseconds pause(250);
    while (wait) {
        const auto now = TRY(view_job(store, client, job.key, task));
        const auto& state = now.evidence.slurm;
        if (state ? gone(*state) : now.ended()) break;
        if (steady_clock::now() > deadline)
            return base::fail(fmt::format("Slurm has not ended task {} after two minutes", task),
                              job.key.job, "try again later; `squeue` shows what it waits for",
                              base::ExitCode::timed_out);
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, milliseconds(4000));
    }
    return {};
}

}  // namespace batchai::status
