// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/job_report.hpp"

#include <unistd.h>

#include "base/parallel.hpp"

namespace batchai::cli {
namespace {

bool ended_by_record(const std::optional<record::Attempt>& attempt) {
    return attempt && attempt->end && attempt->exit_code;
}

JobReport make_report(store::Job job, std::optional<slurm::JobStatus> status,
                      std::optional<record::Attempt> attempt) {
    JobReport report;
    report.evidence.slurm = std::move(status);
    if (attempt) {
        report.evidence.attempt = slurm::AttemptView{
            .number = attempt->number,
            .exit_code = attempt->end ? attempt->exit_code : std::optional<int>(),
            .ended_by = attempt->ended_by};
    }
    // The failure and the times of a run before the last requeue are not this one's.
    if (report.evidence.attempt && report.evidence.slurm &&
        slurm::requeued_since(*report.evidence.slurm, *report.evidence.attempt)) {
        report.evidence.attempt.reset();
        attempt.reset();
    }
    report.evidence.owner = getuid();
    report.evidence.termination_requested = job.termination_requested.has_value();
    report.job = std::move(job);
    report.attempt = std::move(attempt);
    report.state = slurm::execution_state(report.evidence);
    return report;
}

}  // namespace

std::optional<base::Time> JobReport::start() const {
    if (state == slurm::ExecutionState::queued) return {};
    if (attempt) return attempt->start;
    if (evidence.slurm && evidence.slurm->start) return evidence.slurm->start;
    // Terminated while it waited: Batch AI sets both times even so.
    return ended() ? end() : std::nullopt;
}

std::optional<base::Time> JobReport::end() const {
    if (!ended()) return {};
    if (attempt && attempt->end) return attempt->end;
    if (evidence.slurm && evidence.slurm->end) return evidence.slurm->end;
    return job.termination_requested;
}

base::Result<std::optional<record::Attempt>> latest_attempt(const store::Store& store,
                                                            const store::JobKey& key) {
    return record::latest_attempt(store.job_files(key));
}

base::Result<std::vector<JobReport>> report_jobs(const store::Store& store,
                                                 const slurm::Client& client,
                                                 std::vector<store::Job> jobs) {
    if (jobs.empty()) return std::vector<JobReport>();
    std::vector<std::string> ids;
    ids.reserve(jobs.size());
    for (const auto& job : jobs)
        ids.push_back(job.slurm_job_id);
    // Slurm first: a record that is read after it is never older than Slurm's word.
    auto statuses = client.jobs(ids);
    std::vector<base::Result<std::optional<record::Attempt>>> attempts(jobs.size());
    base::in_parallel(jobs.size(),
                      [&](std::size_t i) { attempts[i] = latest_attempt(store, jobs[i].key); });
    std::vector<JobReport> reports;
    reports.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        auto& job = jobs[i];
        auto& attempt = attempts[i];
        if (!attempt) return tl::unexpected(attempt.error());
        if (!statuses && !ended_by_record(*attempt)) return tl::unexpected(statuses.error());
        std::optional<slurm::JobStatus> status;
        if (statuses) {
            const auto found = statuses->find(job.slurm_job_id);
            if (found != statuses->end()) status = found->second;
        }
        reports.push_back(make_report(std::move(job), std::move(status), std::move(*attempt)));
    }
    return reports;
}

base::Result<JobReport> report_job(const store::Store& store, const slurm::Client& client,
                                   const store::JobKey& key) {
    auto job = store.job(key);
    if (!job) return tl::unexpected(job.error());
    auto reports = report_jobs(store, client, {std::move(*job)});
    if (!reports) return tl::unexpected(reports.error());
    JobReport report = std::move(reports->front());
    if (report.ended()) {
        report.not_written = record::failure_notes(store.job_files(key));
        std::erase_if(report.not_written, [](const record::FailureNote& note) {
            return note.code != record::data_not_written;
        });
    }
    return report;
}

}  // namespace batchai::cli
