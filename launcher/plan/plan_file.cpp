// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/plan_file.hpp"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/record.hpp"
#include "plan/sweep_file.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view plan_schema = "batchai-plan/v3";
// Variables can be long; everything that the launcher itself writes stays far below this limit.
constexpr std::size_t plan_limit = 16UL << 20U;

}  // namespace

std::string to_json(const Plan& plan) {
    return base::to_record(plan, plan_schema);
}

base::Result<Plan> plan_from_json(std::string_view text) {
    return base::from_record<Plan>(text, plan_schema, {}, base::UnknownKeys::refused)
        .map_error([](const base::Error& fault) {
            return base::Error{.what = "this is not a plan of this release: " + fault.what,
                               .where = {},
                               .hint = "create the job again"};
        });
}

base::Result<Plan> read_plan(const std::string& path, const std::string& digest,
                             std::optional<int> array_task) {
    auto text = base::read_file(path, plan_limit);
    if (!text) {
        text.error().hint =
            "the job's directory must be on a file system that every node sees; BATCHAI_HOME moves "
            "it there";
        return tl::unexpected<base::Error>(std::move(text).error());
    }
    if (base::sha256_hex(*text) != digest)
        return base::fail("has changed since the job was submitted", path, "submit the job again");
    auto plan = plan_from_json(*text);
    if (!plan) {
        plan.error().where = path;
        return plan;
    }
    // The directory has secrets, logs and unsaved data.
    TRY(base::check_own_directory(plan->directories.plan_directory));
    if (plan->directories.job_directory != plan->directories.plan_directory)
        return base::fail("names a job directory other than its own", path, "submit the job again");
    if (array_task) return plan_of_task(*plan, *array_task);
    if (plan->sweep)
        return base::fail(
            "each point of a sweep runs as a task of an array job, and this job is not one", path,
            "submit the job file with `batchai job create` or sbatch");
    return plan;
}

}  // namespace batchai::plan
