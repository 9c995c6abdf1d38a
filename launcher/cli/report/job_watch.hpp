// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "cli/output/value.hpp"
#include "cli/report/job_report.hpp"
#include "record/attempt.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// Follows one job politely: the record of the attempt, a small file, is looked at each time; Slurm
// is asked when the record changed, and else ever more rarely, from one second up to the longest
// pause. One thread.
class JobWatch {
  public:
    JobWatch(const store::Store& store, const slurm::Client& client, store::JobKey key,
             std::chrono::milliseconds longest_pause)
        : store_(store), client_(client), key_(std::move(key)), longest_pause_(longest_pause) {}

    // The newest report. Slurm's silence is an error only at the first call or when it lasts for
    // five minutes; until then the last report stands.
    [[nodiscard]] base::Result<JobReport> look();

  private:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] base::Result<bool> record_changed();

    const store::Store& store_;
    const slurm::Client& client_;
    store::JobKey key_;
    std::chrono::milliseconds longest_pause_;
    std::chrono::milliseconds pause_{1000};
    Clock::time_point next_question_;
    std::optional<Clock::time_point> silent_since_;
    std::optional<record::Attempt> record_;
    std::optional<JobReport> report_;
};

// The words of `job wait`, as the Azure CLI has them.

// "2018-06-15 21:43:12.424000+00:00", as Python prints a time.
[[nodiscard]] std::string python_time(base::Time time);

// "0:03:25", "1 day, 2:00:00", with fractions of a second only if there are any.
[[nodiscard]] std::string python_duration(base::Time::duration duration);

// The lines about the errors of executionInfo, each with its newline; empty for null.
[[nodiscard]] std::string error_lines(const Value& errors);

// Cancels those of the jobs that have not ended, and marks them as stopped by the user. With
// `wait`, returns when Slurm has ended them, at most after two minutes (ExitCode::timed_out).
[[nodiscard]] base::Result<void> stop_jobs(const store::Store& store, const slurm::Client& client,
                                           const std::vector<store::Job>& jobs, bool wait);

}  // namespace batchai::cli
