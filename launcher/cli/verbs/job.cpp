// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/job.hpp"

#include "cli/report/job_report.hpp"
#include "cli/report/job_watch.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs/surroundings.hpp"

namespace batchai::cli {
namespace {

// The question, then the cancellation; the job itself, or the reason why not.
base::Result<store::Job> stop(const Surroundings& here, const JobOptions& options) {
    auto job = here.store.job(options.key());
    if (!job) return job;
    const auto agreed = confirm(options.yes);
    if (!agreed) return tl::unexpected(agreed.error());
    if (!*agreed) return base::fail("operation cancelled");
    const auto stopped = stop_jobs(here.store, here.slurm, {*job}, !options.no_wait);
    if (!stopped) return tl::unexpected(stopped.error());
    return job;
}

}  // namespace

Answer job_show(const JobOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto report = report_job(here->store, here->slurm, options.key());
    if (!report) return tl::unexpected(report.error());
    auto value = to_value(*report);
    if (!value) return tl::unexpected(value.error());
    value->set("attempts", TRY(attempts_value(here->store, *report)));
    return Outcome{std::move(*value), job_columns};
}

Answer job_list(const JobOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    auto jobs = here->store.jobs(experiment_key(options.parents));
    if (!jobs && nothing_yet(jobs.error(), options.parents)) {
        return Outcome{Value::Array{}, job_columns};
    }
    if (!jobs) return tl::unexpected(jobs.error());
    const auto reports = report_jobs(here->store, here->slurm, std::move(*jobs));
    if (!reports) return tl::unexpected(reports.error());
    Value::Array values;
    for (const auto& report : *reports) {
        auto value = to_value(report);
        if (!value) return tl::unexpected(value.error());
        values.push_back(std::move(*value));
    }
    return Outcome{std::move(values), job_columns};
}

Answer job_terminate(const JobOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto stopped = stop(*here, options);
    if (!stopped) return tl::unexpected(stopped.error());
    return Outcome{};
}

Answer job_delete(const JobOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto stopped = stop(*here, options);
    if (!stopped) return tl::unexpected(stopped.error());
    const auto removed = here->store.remove(options.key());
    if (!removed) return tl::unexpected(removed.error());
    return Outcome{};
}

}  // namespace batchai::cli
