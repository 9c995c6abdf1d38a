// SPDX-License-Identifier: GPL-2.0-or-later
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/named_job.hpp"
#include "record/attempt.hpp"
#include "record/retries.hpp"
#include "slurm/messages.hpp"
#include "status/job_view.hpp"
#include "status/output_directory.hpp"
#include "submit/array_again.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct ResumeOptions {
    user::JobName job;
    std::optional<int> task;
};

// Refuses a job that cannot be resumed.
base::Result<void> check(const status::JobView& view) {
    if (!view.ended())
        return refusal_for(view, "the job has not ended", "`batchai job show` says how far it is");
    if (view.state == slurm::ExecutionState::succeeded)
        return refusal_for(view, "the job has succeeded", "");
    if (!view.evidence.slurm || view.evidence.slurm->from_accounting)
        return refusal_for(
            view,
            fmt::format("Slurm has forgotten its job {}, which it does some minutes "
                        "after the end (MinJobAge)",
                        view.job.slurm_job_id),
            "create the job again; it continues from its checkpoints if their directory "
            "is the same");
    return {};
}

// Returns whether Slurm has queued the job again although it has not said so.
bool was_requeued(const slurm::Client& client, const slurm::JobStatus& before) {
    const auto now = client.jobs({before.id});
    return now && now->contains(before.id) &&
           now->at(before.id).restart_count > before.restart_count;
}

base::Result<void> write_attempt(const record::JobFiles& files, const record::Attempt& attempt) {
    return base::write_atomically(files.attempt(attempt.number), to_json(attempt));
}

// Queues the tasks of an array job that have failed, or one of them, as an array of their own.
Answer resume_tasks(const Context& here, const store::JobKey& key, std::optional<int> task) {
    const base::FileDescriptor lock = TRY(submit::lock_tasks(here.store.job_files(key)));
    const auto view = TRY(status::view_job(here.store, here.slurm, key));
    auto tasks = view.tasks;
    if (task) {
        tasks = {TRY(status::task_of(view, *task))};
        if (!tasks.front().failed())
            return refusal_for(view,
                               fmt::format("task {} has not failed: it is {}", *task,
                                           slurm::to_string(tasks.front().state)),
                               "");
    }
    std::erase_if(tasks, [](const status::TaskView& other) { return !other.failed(); });
    if (tasks.empty())
        return refusal_for(view, "no task of the job has failed",
                           "`batchai job show` says how far each of them is");
    const auto plan = TRY(status::plan_of_job(here.store, key));
    TRY(submit::run_tasks_again(here.store, here.slurm, plan, view.job, tasks, "task"));
    return Outcome{};
}

// Queues a job that has failed or was ended again, under its id in Slurm and in its own directory.
Answer job_resume(const ResumeOptions& options) {
    const auto here = TRY(open_context());
    const auto key = user::job_key(options.job);
    TRY(here.slurm.ping());
    if (TRY(here.store.get<store::Job>(key)).is_array) return resume_tasks(here, key, options.task);
    if (options.task) return tl::unexpected(status::not_an_array(key));
    const record::JobFiles files = here.store.job_files(key);
    const base::FileDescriptor lock = TRY(submit::lock_tasks(files));
    const auto view = TRY(status::view_job(here.store, here.slurm, key));
    TRY(check(view));
    const auto id = TRY(slurm::JobId::parse(view.job.slurm_job_id));
    auto last = TRY(record::latest_attempt(files));
    const auto count = TRY(record::read_retry_count(files));
    // An interrupt in between would leave records of a queue in which the job is not.
    const base::HeldSignals held{SIGINT, SIGTERM, SIGHUP};
    // The retries are counted anew. The attempt to come is in the count, so it is not judged.
    if (last && count)
        TRY(record::write_retry_count(files,
                                      {.attempt = last->number + 1, .progress = count->progress}));
    const auto before = last;
    if (last) {
        last->retried = {.queued = true, .message = "the job is queued again by `job resume`"};
        TRY(write_attempt(files, *last));
    }
    TRY(here.store.update<store::Job>(key,
                                      [](store::Job& job) { job.termination_requested.reset(); }));
    const auto queued = here.slurm.requeue(id);
    if (queued) return Outcome{};
    if (slurm::gave_no_answer(queued.error()) && was_requeued(here.slurm, *view.evidence.slurm))
        return Outcome{};
    // Nothing has changed, so the records must say what they said.
    if (before) TRY(write_attempt(files, *before));
    if (count) TRY(record::write_retry_count(files, *count));
    TRY(here.store.update<store::Job>(
        key, [&](store::Job& job) { job.termination_requested = view.job.termination_requested; }));
    return tl::unexpected(queued.error());
}

}  // namespace

const Verbs job_resume_verbs("job", 30, [](CommandTree& tree, Parser group) {
    auto [leaf, options] =
        add_verb(tree, group, "resume", "Queue a job again that has failed or was terminated",
                 "batchai job resume --name train", job_resume);
    add_job_options(leaf, options->job, "--name,-n");
    add_task_option(leaf, options->task, "One task of an array job [all that have failed]");
});

}  // namespace batchai::cli
