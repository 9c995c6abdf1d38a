// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/sweep_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/record.hpp"
#include "plan/relocate.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view sweep_schema = "batchai-sweep/v1";
// A job file has at most 1 MiB, but a grid repeats its values.
constexpr std::size_t sweep_limit = 64UL << 20U;

}  // namespace

std::string to_json(const Sweep& sweep) {
    return base::to_record(sweep, sweep_schema);
}

base::Result<Sweep> sweep_from_json(std::string_view text) {
    auto sweep = TRY(base::from_record<Sweep>(text, sweep_schema));
    const bool whole = std::all_of(sweep.points.begin(), sweep.points.end(), [&](const auto& p) {
        return p.size() == sweep.parameters.size();
    });
    if (!whole) return base::fail("has a point without a value for each parameter");
    return sweep;
}

base::Result<Sweep> read_sweep(const Plan& plan) {
    const std::string path = record::JobFiles(plan.directories.plan_directory).sweep().string();
    if (!plan.sweep) return base::fail("the job is not a sweep", plan.identity.job);
    const auto text = TRY(base::read_file(path, sweep_limit));
    if (base::sha256_hex(text) != plan.sweep->digest)
        return base::fail("has changed since the job was submitted", path, "submit the job again");
    auto sweep = sweep_from_json(text);
    if (!sweep) sweep.error().where = path;
    return sweep;
}

base::Result<Plan> plan_of_task(const Plan& plan, int task) {
    if (!plan.sweep) return of_array_task(plan, task);
    const auto sweep = TRY(read_sweep(plan));
    if (task < 0 || static_cast<std::size_t>(task) >= sweep.points.size())
        return base::fail(fmt::format("the sweep has no point {}", task), plan.identity.job,
                          fmt::format("its points are 0 to {}", sweep.points.size() - 1),
                          base::ExitCode::not_found);
    return of_array_task(plan, task, sweep.points[static_cast<std::size_t>(task)]);
}

}  // namespace batchai::plan
