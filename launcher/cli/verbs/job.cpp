// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "record/snapshot.hpp"
#include "status/job_progress.hpp"
#include "status/job_view.hpp"
#include "status/job_watch.hpp"
#include "status/resource_view.hpp"
#include "status/usage/efficiency.hpp"
#include "submit/held_job.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct JobOptions {
    user::JobName job;
    std::optional<int> task;  // of an array job
    bool yes = false;
    bool no_wait = false;
    int interval = 15;  // longest time between two queries to Slurm, in seconds
};

// Asks for confirmation and cancels the job, or one task of it. Returns the job.
base::Result<store::Job> stop(const Context& here, const JobOptions& options) {
    auto job = TRY(here.store.get<store::Job>(user::job_key(options.job)));
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    if (options.task)
        TRY(status::stop_task(here.store, here.slurm, job, *options.task, !options.no_wait));
    else
        TRY(status::stop_jobs(here.store, here.slurm, {job}, !options.no_wait));
    return job;
}

// The table of the Azure CLI for scripts that call "az", and more for people.
Columns columns_of_jobs() {
    return called_as_az() ? Columns(status::job_columns) : Columns(status::waiting_job_columns);
}

Answer job_show(const JobOptions& options) {
    const auto here = TRY(open_context());
    const auto view =
        TRY(status::view_job(here.store, here.slurm, user::job_key(options.job), options.task));
    Value value = status::to_value(view);
    // What the job has used is shown if it is known, and hides nothing else if it cannot be read.
    const auto used = status::efficiency_of_job(here.store, here.slurm, view);
    value.set("usage", used && *used ? status::to_value(**used) : Value());
    if (const auto made = TRY(record::read_snapshot(here.store.job_files(view.job.key)))) {
        Value snapshot = value["snapshot"];
        snapshot.set("made", record::to_value(*made));
        value.set("snapshot", std::move(snapshot));
    }
    // Each task of an array job has attempts of its own, which --task shows.
    if (view.tasks.empty())
        value.set("attempts", TRY(status::attempts_value(here.store, view)));
    else
        value.set("tasks", status::to_value(view.tasks));
    return Outcome{std::move(value), columns_of_jobs()};
}

// Names the jobs that have no record although they may be in Slurm.
void say_what_is_unfinished(const store::Store& store, const store::ExperimentKey& key,
                            const std::vector<status::JobView>& views) {
    auto names = store.job_names(key).value_or(std::vector<std::string>());
    if (names.size() == views.size()) return;
    const auto listed = [&](const std::string& name) {
        return std::any_of(views.begin(), views.end(),
                           [&](const status::JobView& view) { return view.job.key.job == name; });
    };
    std::erase_if(names, listed);
    for (const std::string& name : store.abandoned_names(key, names)) {
        const auto job = store.get<store::Job>({key.group, key.workspace, key.experiment, name});
        // Its create may have recorded it meanwhile.
        if (!job) warn(job.error().text());
    }
}

Answer job_list(const user::ParentOptions& parents) {
    const auto here = TRY(open_context());
    bool complete = true;
    auto views =
        status::view_jobs_of(here.store, here.slurm, user::experiment_key(parents), complete);
    if (!views && user::nothing_yet(views.error(), parents))
        return Outcome{Value::Array{}, status::job_columns};
    if (!views) return tl::unexpected(views.error());
    say_what_is_unfinished(here.store, user::experiment_key(parents), *views);
    Value::Array values(views->size());
    base::in_parallel(values.size(),
                      [&](std::size_t i) { values[i] = status::to_value(std::move((*views)[i])); });
    return Outcome{std::move(values), columns_of_jobs(), complete ? 0 : 1};
}

Answer job_terminate(const JobOptions& options) {
    const auto here = TRY(open_context());
    TRY(stop(here, options));
    return Outcome{};
}

Answer job_delete(const JobOptions& options) {
    const auto here = TRY(open_context());
    const auto key = user::job_key(options.job);
    const auto found = here.store.get<store::Job>(key);
    if (!found && found.error().exit_code == base::ExitCode::not_found) {
        // What is left of a job without a record has no output that could be lost.
        const bool freed = TRY(here.store.free_name(key, [&](const record::JobFiles& left) {
            return submit::end_unrecorded_job(here.slurm, left);
        }));
        if (freed) return Outcome{};
    }
    TRY(stop(here, options));
    TRY(here.store.remove<store::Job>(key));
    return Outcome{};
}

// Waits until the job has ended and exits with the job's exit code.
Answer job_wait(const JobOptions& options) {
    const auto here = TRY(open_context());
    const Interruption interruption;
    status::JobWatch watch(here.store, here.slurm, user::job_key(options.job),
                           std::chrono::seconds(options.interval), options.task);
    status::JobProgress progress;
    const auto end =
        TRY(status::follow(watch, [&](const status::JobView& view) -> base::Result<status::Step> {
            progress.look(view);
            return status::Step::nothing_new;
        }));
    if (end.view.ended()) return Outcome{.exit_code = status::say_end(end.view)};
    return Outcome{.exit_code = status::say_interrupted(end.view)};
}

// Names of the option that names the job of a verb of "job" itself.
constexpr const char* name_option = "--name,-n";

}  // namespace

const Verbs job_group("", 30, [](CommandTree& /*tree*/, Parser app) {
    add_group(app, "job", "Submit and follow jobs");
});

const Verbs job_verbs("job", 20, [](CommandTree& tree, Parser group) {
    const std::string example = "batchai job ";
    {
        auto [leaf, options] =
            add_verb(tree, group, "show", "Show a job",
                     example + "show --name train --query executionState", job_show);
        add_job_options(leaf, options->job, name_option);
        add_task_option(leaf, options->task, "One task of an array job [all together]");
    }
    {
        auto [leaf, parents] = add_verb(tree, group, "list", "List the jobs of an experiment",
                                        example + "list --output table", job_list);
        add_experiment_option(leaf, *parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "wait", "Wait until a job has ended; exit with its exit code",
                     example + "wait --name train", job_wait, Printing::by_itself_as_az);
        add_job_options(leaf, options->job, name_option);
        add_task_option(leaf, options->task, "One task of an array job [all]");
        leaf.add_option("--interval", options->interval,
                        "Longest interval between two queries to Slurm [15]")
            .type_name("SECONDS")
            .between(1, 3600);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "terminate", "Stop a job; its record stays",
                                        example + "terminate --name train --yes", job_terminate);
        add_job_options(leaf, options->job, name_option);
        add_task_option(leaf, options->task, "One task of an array job [all]");
        add_yes_options(leaf, options->yes, options->no_wait);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete",
                     "Delete a job, after stopping it if it runs; its output files stay",
                     example + "delete --name train --yes", job_delete);
        add_job_options(leaf, options->job, name_option);
        add_yes_options(leaf, options->yes, options->no_wait);
    }
});

}  // namespace batchai::cli
