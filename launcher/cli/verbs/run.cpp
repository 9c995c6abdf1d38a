// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/run.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "cli/resource/job_image.hpp"
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

}  // namespace

Answer run_plan(const RunVerbOptions& options) {
    const run::RunOptions run{given_or_variable(options.plan, "BATCHAI_PLAN"),
                              given_or_variable(options.digest, "BATCHAI_PLAN_DIGEST"), [] {
                                  const auto store = store::Store::open_default();
                                  return store ? images_in_use(*store, slurm::Client())
                                               : std::set<std::string>();
                              }};
    if (run.plan_path.empty() || run.digest.empty()) {
        return base::fail("no plan is given", "batchai run",
                          "submit with `sbatch --job-json=job.json`, or give --plan and --digest",
                          base::ExitCode::usage);
    }
    return Outcome{{}, {}, run::run_job(run)};
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
