// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/job_watch.hpp"

#include <algorithm>

#include "cli/outcome.hpp"

namespace batchai::cli {
namespace {

constexpr auto patience = std::chrono::minutes(5);

}  // namespace

base::Result<bool> JobWatch::record_changed() {
    auto attempt = latest_attempt(store_, key_);
    if (!attempt) return tl::unexpected(attempt.error());
    if (*attempt == record_) return false;
    record_ = std::move(*attempt);
    return true;
}

base::Result<JobReport> JobWatch::look() {
    const auto changed = record_changed();
    if (!changed) {
        // The record goes away with the job; the store says it better.
        const auto job = store_.job(key_);
        return tl::unexpected(job ? changed.error() : job.error());
    }
    const auto now = Clock::now();
    if (report_ && !*changed && now < next_question_) return *report_;
    auto report = report_job(store_, client_, key_);
    if (!report) {
        const bool gone = report.error().exit_code == base::ExitCode::not_found;
        if (!report_ || gone) return report;
        if (!silent_since_) {
            silent_since_ = now;
            warn("Slurm does not answer; trying again: " + report.error().text());
        }
        if (now - *silent_since_ > patience) return report;
    } else {
        silent_since_.reset();
        report_ = std::move(*report);
    }
    pause_ = *changed ? std::chrono::milliseconds(1000) : pause_ * 3 / 2;
    pause_ = std::min(pause_, std::max(longest_pause_, std::chrono::milliseconds(1000)));
    next_question_ = now + pause_;
    return *report_;
}

}  // namespace batchai::cli
