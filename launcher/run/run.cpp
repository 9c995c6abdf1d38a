// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/run.hpp"

#include <cstdio>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/own_directory.hpp"
#include "record/plan_file.hpp"
#include "run/allocation.hpp"
#include "run/attempt.hpp"
#include "run/blame/failed_start.hpp"
#include "site/site.hpp"

namespace batchai::run {

namespace {

base::Result<int> run_attempt(const RunOptions& options) {
    const plan::Plan plan = TRY(record::read_plan(options.plan_path, options.digest));
    const site::Site site = TRY(site::load_default());
    AttemptRunner runner(plan, options.digest, options.plan_path, site, options.images_in_use,
                         TRY(granted(from_environment, plan)));
    return runner.run();
}

}  // namespace

int run_job(const RunOptions& options) {
    const auto result = run_attempt(options);
    if (result) return *result;
    std::fprintf(stderr, "batchai: error: %s\n", result.error().text().c_str());
    record_failed_start(options.plan_path, result.error());
    return static_cast<int>(result.error().exit_code);
}

}  // namespace batchai::run
