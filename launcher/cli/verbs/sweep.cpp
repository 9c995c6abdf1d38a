// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "slurm/array_indexes.hpp"
#include "status/job_watch.hpp"
#include "status/sweep/view.hpp"
#include "submit/array_again.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct SweepOptions {
    user::JobName job;
    std::optional<std::string> points;  // "0,3-5"
    bool no_metric = false;
    bool queued_only = false;
    bool yes = false;
    bool no_wait = false;
};

Answer sweep_list(const user::ParentOptions& parents) {
    const auto here = TRY(open_context());
    bool complete = true;
    const auto job_views =
        status::view_jobs_of(here.store, here.slurm, user::experiment_key(parents), complete);
    if (!job_views && user::nothing_yet(job_views.error(), parents))
        return Outcome{Value::Array{}, status::sweep_columns};
    if (!job_views) return tl::unexpected(job_views.error());
    Value::Array values;
    for (const status::JobView& job_view : *job_views) {
        if (!status::is_sweep(job_view.job)) continue;
        values.push_back(Value::Object{
            {"name", job_view.job.key.job},
            {"executionState", slurm::to_string(job_view.state)},
            {"taskStateCounts", status::to_value(status::count_tasks(job_view.tasks))},
            {"creationTime", base::to_iso8601(job_view.job.creation_time)},
            {"slurmJobId", job_view.job.slurm_job_id}});
    }
    return Outcome{std::move(values), status::sweep_columns, complete ? 0 : 1};
}

// Returns the tasks of the points that the user has named, or all.
base::Result<std::vector<status::TaskView>> chosen(const status::SweepView& view,
                                                   const std::optional<std::string>& points) {
    if (!points) return view.job_view.tasks;
    const auto wanted = slurm::expand_array_indexes(*points);
    if (!wanted)
        return base::fail(fmt::format("\"{}\" is not a list of points", *points), "--point",
                          "write it like 0,3-5", base::ExitCode::usage);
    std::vector<status::TaskView> out;
    for (const int number : *wanted) {
        const auto& tasks = view.job_view.tasks;
        const auto found =
            std::find_if(tasks.begin(), tasks.end(),
                         [&](const status::TaskView& task) { return task.number == number; });
        if (found == tasks.end())
            return base::fail(fmt::format("the sweep has no point {}", number), "--point",
                              fmt::format("its points are 0 to {}", view.sweep.points.size() - 1),
                              base::ExitCode::not_found);
        out.push_back(*found);
    }
    return out;
}

Answer sweep_show(const SweepOptions& options) {
    const auto here = TRY(open_context());
    const auto view = TRY(status::open_sweep(here.store, here.slurm, user::job_key(options.job)));
    const auto tasks = TRY(chosen(view, options.points));
    std::vector<std::optional<status::Metric>> metrics(tasks.size());
    if (!options.no_metric) metrics = TRY(status::metrics_of(here.store, view, tasks));
    Value::Array values;
    for (std::size_t i = 0; i < tasks.size(); ++i)
        values.push_back(status::point_value(view, tasks[i], metrics[i]));
    return Outcome{std::move(values), status::point_columns};
}

Answer sweep_best(const SweepOptions& options) {
    const auto here = TRY(open_context());
    const auto view = TRY(status::open_sweep(here.store, here.slurm, user::job_key(options.job)));
    if (!view.sweep.metric)
        return base::fail("the sweep has no metric by which its points could be compared",
                          view.job_view.job.key.job,
                          "give \"sweep.metric\" in the job file of the next one",
                          base::ExitCode::usage);
    const auto& tasks = view.job_view.tasks;
    const auto metrics = TRY(status::metrics_of(here.store, view, tasks));
    std::optional<std::size_t> best;
    const status::Metric nothing{.value = std::numeric_limits<double>::quiet_NaN(), .text = {}};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (!metrics[i]) continue;
        const status::Metric& other = best ? *metrics[*best] : nothing;
        if (metrics[i]->better_than(other, view.sweep.metric->goal)) best = i;
    }
    if (!best)
        return base::fail("no point has printed a number that the metric's pattern finds",
                          view.job_view.job.key.job,
                          fmt::format("the pattern is {}; `batchai job logs {} --task 0` shows the "
                                      "logs of a point",
                                      view.sweep.metric->pattern, view.job_view.job.key.job),
                          base::ExitCode::not_found);
    Value value = status::point_value(view, tasks[*best], metrics[*best]);
    const plan::Plan plan = view.plan_of(tasks[*best].number);
    const auto& directories = plan.directories;
    value.set("stdOutErr",
              directories.stdouterr_host.empty() ? Value() : Value(directories.stdouterr_host));
    Value::Object outputs;
    for (const plan::OutputDirectory& output : plan.outputs)
        outputs.emplace_back(output.id,
                             output.path_host.empty() ? Value() : Value(output.path_host));
    value.set("outputDirectories", std::move(outputs));
    return Outcome{std::move(value), status::point_columns};
}

Answer sweep_retry(const SweepOptions& options) {
    const auto here = TRY(open_context());
    const auto key = user::job_key(options.job);
    TRY(here.slurm.ping());
    TRY(here.store.get<store::Job>(key));
    const base::FileDescriptor lock = TRY(submit::lock_tasks(here.store.job_files(key)));
    const auto view = TRY(status::open_sweep(here.store, here.slurm, key));
    auto tasks = TRY(chosen(view, options.points));
    if (options.points) {
        for (const status::TaskView& task : tasks) {
            if (!task.failed())
                return base::fail(fmt::format("point {} has not failed: it is {}", task.number,
                                              slurm::to_string(task.state)),
                                  key.job, "leave it out", base::ExitCode::refused);
        }
    }
    std::erase_if(tasks, [](const status::TaskView& task) { return !task.failed(); });
    if (tasks.empty()) {
        say("no point has failed, so none is queued again");
        return Outcome{Value::Array{}, status::point_columns};
    }
    std::vector<int> numbers;
    for (const status::TaskView& task : tasks)
        numbers.push_back(task.number);
    TRY(submit::run_tasks_again(here.store, here.slurm, view.plan, view.job_view.job, tasks,
                                "point"));
    const auto now = TRY(status::open_sweep(here.store, here.slurm, key));
    Value::Array values;
    for (const status::TaskView& task : now.job_view.tasks) {
        if (std::binary_search(numbers.begin(), numbers.end(), task.number))
            values.push_back(status::point_value(now, task, std::nullopt));
    }
    return Outcome{std::move(values), status::point_columns};
}

Answer sweep_stop(const SweepOptions& options) {
    const auto here = TRY(open_context());
    const auto key = user::job_key(options.job);
    const auto view = TRY(status::open_sweep(here.store, here.slurm, key));
    if (!TRY(confirm(options.yes))) return base::fail("operation cancelled");
    if (!options.queued_only) {
        TRY(status::stop_jobs(here.store, here.slurm, {view.job_view.job}, !options.no_wait));
        return Outcome{};
    }
    TRY(here.slurm.ping());
    std::map<std::string, std::vector<int>> queued;
    std::vector<int> numbers;
    for (const status::TaskView& task : view.job_view.tasks)
        numbers.push_back(task.number);
    const auto runs = status::runs_of(view.job_view.job, numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (view.job_view.tasks[i].state == slurm::ExecutionState::queued)
            queued[runs[i].slurm_job_id].push_back(numbers[i]);
    }
    for (const auto& [id, tasks] : queued) {
        const auto array = TRY(slurm::JobId::parse(id));
        TRY(here.slurm.cancel_tasks(array, tasks, true));
    }
    return Outcome{};
}

}  // namespace

const Verbs sweep_verbs("", 40, [](CommandTree& tree, Parser app) {
    const Parser group =
        add_group(app, "sweep", "Compare the points of a sweep, and run them again");
    constexpr const char* name_option = "--name,-n";
    const auto add_points = [](Parser leaf, SweepOptions& options, const std::string& what) {
        add_optional(leaf, "--point", options.points, what + ", such as 0,3-5 [all]")
            .type_name("POINTS");
    };
    {
        auto [leaf, parents] = add_verb(tree, group, "list", "List the sweeps of an experiment",
                                        "batchai sweep list --output table", sweep_list);
        add_experiment_option(leaf, *parents);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "show", "Show the points of a sweep with their parameters and metrics",
            "batchai sweep show --name tune --output table\n"
            "  batchai sweep show --name tune --query \"[?executionState=='failed'].point\"",
            sweep_show);
        add_job_options(leaf, options->job, name_option);
        add_points(leaf, *options, "Only these points");
        leaf.add_flag("--no-metric", options->no_metric, "Do not read the logs");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "best", "Show the point with the best metric",
                     "batchai sweep best --name tune --query parameters", sweep_best);
        add_job_options(leaf, options->job, name_option);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "retry",
                     "Queue the points that have failed again, with the same parameters",
                     "batchai sweep retry --name tune", sweep_retry);
        add_job_options(leaf, options->job, name_option);
        add_points(leaf, *options, "Only these points, which must have failed");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "stop", "End the points that wait and run; their records stay",
                     "batchai sweep stop --name tune --queued-only --yes", sweep_stop);
        add_job_options(leaf, options->job, name_option);
        leaf.add_flag("--queued-only", options->queued_only, "Let the points that run go on");
        add_yes_options(leaf, options->yes, options->no_wait);
    }
});

}  // namespace batchai::cli
