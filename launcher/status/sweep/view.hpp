// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "plan/plan.hpp"
#include "plan/sweep.hpp"
#include "slurm/client.hpp"
#include "status/job_view.hpp"
#include "status/sweep/metric.hpp"
#include "store/store.hpp"

// The points of a sweep, as `batchai sweep` and `job create --dry-run` show them.
namespace batchai::status {

// Refuses an array that is larger than Slurm takes (MaxArraySize).
[[nodiscard]] base::Result<void> check_array_size(const slurm::Client& client,
                                                  const plan::Sweep& sweep);

// Returns a table of the points and their parameters.
[[nodiscard]] std::string points_table(const plan::Sweep& sweep);

// A sweep with everything that is known about its points.
struct SweepView {
    plan::Plan plan;
    plan::Sweep sweep;
    JobView job_view;

    // Returns the plan of a point.
    [[nodiscard]] plan::Plan plan_of(int point) const;
};

[[nodiscard]] bool is_sweep(const store::Job& job);

// Reads a sweep. A job that is not a sweep is an error.
[[nodiscard]] base::Result<SweepView> open_sweep(const store::Store& store,
                                                 const slurm::Client& client,
                                                 const store::JobKey& key);

// Returns the metric of each of the tasks, from the logs of their newest attempts.
[[nodiscard]] base::Result<std::vector<std::optional<Metric>>> metrics_of(
    const store::Store& store, const SweepView& view, const std::vector<TaskView>& tasks);

// {point, parameters: {…}, executionState, exitCode, node, metric, duration, …}
[[nodiscard]] base::Value point_value(const SweepView& view, const TaskView& task,
                                      const std::optional<Metric>& metric);

// Has a column for each parameter.
[[nodiscard]] cli::Table point_columns(const base::Value& value);
[[nodiscard]] cli::Table sweep_columns(const base::Value& value);

}  // namespace batchai::status
