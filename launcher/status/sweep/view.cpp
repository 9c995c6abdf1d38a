// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/sweep/view.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parallel.hpp"
#include "base/record.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "job/schema/checks.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/relocate.hpp"
#include "plan/sweep_file.hpp"
#include "status/output_directory.hpp"

namespace batchai::status {

base::Result<void> check_array_size(const slurm::Client& client, const plan::Sweep& sweep) {
    const auto configuration = TRY(client.configuration());
    const auto entry = configuration.find("MaxArraySize");
    if (entry == configuration.end()) return {};
    // An index must be less than this.
    const auto most = base::number_in<std::size_t>(entry->second);
    if (!most || sweep.points.size() <= *most) return {};
    return base::fail(
        fmt::format("the sweep has {} points, and an array job of this Slurm has at most {}",
                    sweep.points.size(), *most),
        "sweep", "give fewer values, or ask the administrator to raise MaxArraySize in slurm.conf",
        base::ExitCode::refused);
}

std::string points_table(const plan::Sweep& sweep) {
    cli::Table table{.headers = {"Point"}, .rows = {}};
    for (const std::string& name : sweep.parameters)
        table.headers.push_back(name);
    for (std::size_t i = 0; i < sweep.points.size(); ++i) {
        std::vector<std::string> row{std::to_string(i)};
        for (const std::string& value : sweep.points[i])
            row.push_back(job::printable(value));
        table.rows.push_back(std::move(row));
    }
    return cli::format_table(table);
}

plan::Plan SweepView::plan_of(int point) const {
    return plan::of_array_task(plan, point, sweep.points.at(static_cast<std::size_t>(point)));
}

bool is_sweep(const store::Job& job) {
    return job.is_array && !job.properties["sweep"].is_null();
}

base::Result<SweepView> open_sweep(const store::Store& store, const slurm::Client& client,
                                   const store::JobKey& key) {
    auto plan = TRY(plan_of_job(store, key));
    if (!plan.sweep)
        return base::fail("the job is not a sweep", key.job, "`batchai sweep list` lists them",
                          base::ExitCode::usage);
    auto sweep = TRY(plan::read_sweep(plan));
    auto job_view = TRY(view_job(store, client, key));
    // The record and the plan are two files, so somebody could have changed one of them.
    std::erase_if(job_view.tasks, [&](const TaskView& task) {
        return static_cast<std::size_t>(task.number) >= sweep.points.size();
    });
    return SweepView{
        .plan = std::move(plan), .sweep = std::move(sweep), .job_view = std::move(job_view)};
}

base::Result<std::vector<std::optional<Metric>>> metrics_of(const store::Store& store,
                                                            const SweepView& view,
                                                            const std::vector<TaskView>& tasks) {
    std::vector<std::optional<Metric>> out(tasks.size());
    if (!view.sweep.metric) return out;
    const record::JobFiles files = store.job_files(view.job_view.job.key);
    std::vector<std::optional<base::Error>> errors(tasks.size());
    base::in_parallel(tasks.size(), [&](std::size_t i) {
        // An attempt from before the task was queued again does not count.
        if (!tasks[i].attempt) return;
        const int number = tasks[i].number;
        auto metric = metric_of({.files = files.array_task(number),
                                 .logs = view.plan_of(number).directories.stdouterr_host,
                                 .ended = tasks[i].ended()},
                                *view.sweep.metric);
        if (metric)
            out[i] = std::move(*metric);
        else
            errors[i] = metric.error();
    });
    const auto unread = std::count_if(errors.begin(), errors.end(),
                                      [](const auto& error) { return error.has_value(); });
    if (unread > 0)
        cli::warn(fmt::format(
            "the output of {} of {} points cannot be read, so their metric is missing: {}", unread,
            tasks.size(), (*std::find_if(errors.begin(), errors.end(), [](const auto& error) {
                              return error.has_value();
                          }))->text()));
    return out;
}

namespace {

// Shows a text that is a number as such, so that a query can sort by it.
base::Value value_of(const std::string& text) {
    const bool looks_like_one = !text.empty() &&
                                (text.front() == '-' || base::is_digit(text.front())) &&
                                base::is_digit(text.back());
    if (!looks_like_one) return text;
    auto parsed = base::parse_json(text, "");
    if (!parsed || !parsed->is_number()) return text;
    if (const auto* real = parsed->real(); real != nullptr && !std::isfinite(*real)) return text;
    return std::move(*parsed);
}

base::Value metric_value(const std::optional<Metric>& metric) {
    if (!metric) return nullptr;
    return std::isfinite(metric->value) ? base::Value(metric->value) : base::Value(metric->text);
}

base::Value seconds_of(const TaskView& task) {
    const auto start = start_of(task);
    if (!start) return nullptr;
    const auto end = end_of(task).value_or(base::now());
    const auto seconds = std::chrono::duration_cast<std::chrono::milliseconds>(end - *start);
    return std::max(0.0, static_cast<double>(seconds.count()) / 1000);
}

std::string cell(const base::Value& value) {
    if (const auto* text = value.string()) return job::printable(*text);
    if (const auto* number = value.integer()) return std::to_string(*number);
    if (const auto* number = value.real()) return fmt::format("{}", *number);
    if (const auto* flag = value.boolean()) return *flag ? "true" : "false";
    return {};
}

}  // namespace

base::Value point_value(const SweepView& view, const TaskView& task,
                        const std::optional<Metric>& metric) {
    base::Value::Object parameters;
    const plan::SweepPoint& point = view.sweep.points.at(static_cast<std::size_t>(task.number));
    for (std::size_t i = 0; i < point.size(); ++i)
        parameters.emplace_back(view.sweep.parameters[i], value_of(point[i]));
    const auto code = slurm::exit_code(task.evidence);
    const auto& slurm = task.evidence.slurm;
    const auto nodes = task.attempt ? task.attempt->nodes
                       : slurm      ? slurm->nodes
                                    : std::vector<std::string>();
    return base::Value::Object{
        {"point", task.number},
        {"parameters", std::move(parameters)},
        {"executionState", slurm::to_string(task.state)},
        {"exitCode", code ? base::Value(*code) : base::Value()},
        {"attempt", task.attempt ? base::Value(task.attempt->number) : base::Value()},
        {"node",
         nodes.empty() ? base::Value() : base::Value(fmt::format("{}", fmt::join(nodes, ",")))},
        {"metric", metric_value(metric)},
        {"startTime", base::to_value(start_of(task))},
        {"endTime", base::to_value(end_of(task))},
        {"duration", seconds_of(task)},
        {"slurmJobId",
         slurm ? base::Value(fmt::format("{}_{}", slurm->array_id, task.number)) : base::Value()}};
}

cli::Table point_columns(const base::Value& value) {
    const base::Value::Array one{value};
    const base::Value::Array& points = value.is_array() ? *value.array() : one;
    if (points.empty()) return {};
    cli::Table table{.headers = {"Point"}, .rows = {}};
    const base::Value::Object no_parameters;
    const auto* names = points.front()["parameters"].object();
    if (names == nullptr) names = &no_parameters;
    for (const auto& [name, unused] : *names)
        table.headers.push_back(name);
    for (const char* header : {"State", "Exit code", "Node", "Metric", "Duration"})
        table.headers.emplace_back(header);
    for (const base::Value& point : points) {
        std::vector<std::string> row{cell(point["point"])};
        for (const auto& [name, unused] : *names)
            row.push_back(cell(point["parameters"][name]));
        for (const char* key : {"executionState", "exitCode", "node", "metric"})
            row.push_back(cell(point[key]));
        const auto* seconds = point["duration"].real();
        row.push_back(seconds == nullptr
                          ? std::string()
                          : job::format_duration(std::chrono::seconds(std::llround(*seconds))));
        table.rows.push_back(std::move(row));
    }
    return table;
}

cli::Table sweep_columns(const base::Value& value) {
    const auto* sweeps = value.array();
    if (sweeps == nullptr || sweeps->empty()) return {};
    cli::Table table{
        .headers = {"Name", "Points", "Queued", "Running", "Succeeded", "Failed", "State"},
        .rows = {}};
    for (const base::Value& sweep : *sweeps) {
        const base::Value& counts = sweep["taskStateCounts"];
        table.rows.push_back({cell(sweep["name"]), cell(counts["total"]), cell(counts["queued"]),
                              cell(counts["running"]), cell(counts["succeeded"]),
                              cell(counts["failed"]), cell(sweep["executionState"])});
    }
    return table;
}

}  // namespace batchai::status
