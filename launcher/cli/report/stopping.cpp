// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/stopping.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "cli/report/job_report.hpp"

namespace batchai::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// KillWait is 30 s by default; a batch script may take that long to end.
constexpr auto longest_wait = std::chrono::minutes(2);

// Slurm's own word counts here: a record that says "ended" comes before the last process is gone.
bool gone(const slurm::JobStatus& status) {
    return slurm::is_final(status.state);
}

base::Result<void> wait_until_gone(const slurm::Client& client,
                                   const std::vector<std::string>& ids) {
    const auto deadline = steady_clock::now() + longest_wait;
    milliseconds pause(250);
    while (true) {
        const auto statuses = client.jobs(ids);
        if (!statuses) return tl::unexpected(statuses.error());
        const auto waiting = std::find_if(statuses->begin(), statuses->end(),
                                          [](const auto& entry) { return !gone(entry.second); });
        if (waiting == statuses->end()) return {};
        if (steady_clock::now() > deadline) {
            return base::fail(
                fmt::format("Slurm has not ended job {} after two minutes", waiting->first), "",
                "try again later; `squeue` shows what it waits for", base::ExitCode::timed_out);
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, milliseconds(4000));
    }
}

}  // namespace

base::Result<void> stop_jobs(const store::Store& store, const slurm::Client& client,
                             const std::vector<store::Job>& jobs, bool wait) {
    if (jobs.empty()) return {};
    // A record alone is not enough here: without Slurm nothing is stopped, and nothing deleted.
    TRY(client.ping());
    const auto reports = report_jobs(store, client, jobs);
    if (!reports) return tl::unexpected(reports.error());
    std::vector<std::string> ids;
    for (const auto& report : *reports) {
        const auto& status = report.evidence.slurm;
        const bool live = status ? !gone(*status) : !report.ended();
        if (!live) continue;
        if (!report.ended()) {
            // Before the cancellation, so that nobody sees the end without its reason.
            const auto marked = store.update(report.job.key, [](store::Job& job) {
                if (!job.termination_requested) job.termination_requested = base::now();
            });
            if (!marked) return tl::unexpected(marked.error());
            const auto cancelled = client.cancel(report.job.slurm_job_id);
            if (!cancelled) return tl::unexpected(cancelled.error());
        }
        ids.push_back(report.job.slurm_job_id);
    }
    if (!wait || ids.empty()) return {};
    return wait_until_gone(client, ids);
}

}  // namespace batchai::cli
