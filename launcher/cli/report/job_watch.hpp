// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>

#include "base/error.hpp"
#include "cli/report/job_report.hpp"
#include "record/attempt.hpp"

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

}  // namespace batchai::cli
