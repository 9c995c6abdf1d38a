// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/run.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "cli/report/job_image.hpp"
#include "cli/verbs/job.hpp"
#include "run/run.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

namespace batchai::cli {
namespace {

std::string given_or_variable(const std::optional<std::string>& given, const char* name) {
    if (given) return *given;
    const auto* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::set<std::string> images_of_the_user() {
    const auto store = store::Store::open_default();
    return store ? images_in_use(*store, slurm::Client()) : std::set<std::string>();
}

base::Result<std::optional<FrozenPlan>> new_plan(const RunVerbOptions& options) {
    if (options.plan || options.digest)
        return base::fail("--plan is a finished plan, which is not changed", "batchai run",
                          "leave out --plan and --digest, or the other options",
                          base::ExitCode::usage);
    HandOverOptions file{options.file};
    if (file.file.path.empty()) file.file.path = given_or_variable({}, "BATCHAI_JOB_JSON");
    if (file.file.path.empty())
        return base::fail("no job file is given", "batchai run", "add --job-json=job.json",
                          base::ExitCode::usage);
    return freeze_plan(file);
}

}  // namespace

Answer run_plan(const RunVerbOptions& options) {
    run::RunOptions run{given_or_variable(options.plan, "BATCHAI_PLAN"),
                        given_or_variable(options.digest, "BATCHAI_PLAN_DIGEST"),
                        images_of_the_user};
    if (options.wants_new_plan()) {
        const auto frozen = new_plan(options);
        if (!frozen) return tl::unexpected(frozen.error());
        if (!*frozen) return Outcome{{}, {}, static_cast<int>(base::ExitCode::bad_job_file)};
        run.plan_path = (*frozen)->path;
        run.digest = (*frozen)->digest;
    }
    if (run.plan_path.empty() || run.digest.empty()) {
        return base::fail("no plan is given", "batchai run",
                          "submit with `sbatch --job-json=job.json`, or add --job-json=job.json",
                          base::ExitCode::usage);
    }
    return Outcome{{}, {}, run::run_job(run)};
}

Answer watch_first_node(const run::FirstNodeWatch& watch) {
    return Outcome{{}, {}, run::watch_first_node(watch)};
}

Answer version(const VersionOptions& /*options*/) {
    fmt::print("batchai {}\n", BATCHAI_VERSION);
    const auto slurm = slurm::Client(std::chrono::seconds(5)).version();
    if (slurm) {
        fmt::print("slurm {}\n", *slurm);
    } else {
        say("Slurm does not answer: " + slurm.error().text());
    }
    return Outcome{};
}

}  // namespace batchai::cli
