// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/run.hpp"

#include <cstdio>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/own_directory.hpp"
#include "run/allocation.hpp"
#include "run/attempt.hpp"
#include "run/blame/failed_start.hpp"
#include "site/site.hpp"

namespace batchai::run {

namespace {

base::Result<plan::Plan> read_plan(const RunOptions& options) {
    auto text = base::read_file(options.plan_path);
    if (!text) return tl::unexpected<base::Error>(text.error());
    if (base::sha256_hex(*text) != options.digest)
        return base::fail("the plan is not the one that was submitted", options.plan_path,
                          "submit the job again; plans are never edited");
    auto plan = plan::from_json(*text);
    if (!plan) return plan;
    if (auto own = base::check_own_directory(plan->directories.job_directory); !own)
        return tl::unexpected<base::Error>(own.error());
    return plan;
}

base::Result<int> run_attempt(const RunOptions& options) {
    const auto plan = read_plan(options);
    if (!plan) return tl::unexpected<base::Error>(plan.error());
    const auto site = site::load_default();
    if (!site) return tl::unexpected<base::Error>(site.error());
    auto nodes = granted(from_environment, *plan);
    if (!nodes) return tl::unexpected<base::Error>(nodes.error());
    AttemptRunner runner(*plan, options.digest, options.plan_path, *site, options.images_in_use,
                         std::move(*nodes));
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
