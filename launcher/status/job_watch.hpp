// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "cli/output/output.hpp"
#include "record/attempt.hpp"
#include "slurm/client.hpp"
#include "status/job_view.hpp"
#include "store/store.hpp"

namespace batchai::status {

// Follows one job, or one task of an array job, with few queries to Slurm. Each look reads the
// attempt's record, which is a small file, and of an array job the records of the tasks that run.
// Slurm is asked when the record has changed, and otherwise at intervals that grow from one second
// to the longest pause. For use by one thread.
class JobWatch {
  public:
    JobWatch(const store::Store& store, const slurm::Client& client, store::JobKey key,
             std::chrono::milliseconds longest_pause, std::optional<int> task = {})
        : store_(store),
          client_(client),
          key_(std::move(key)),
          longest_pause_(longest_pause),
          task_(task) {}

    // Returns the newest view. If Slurm does not answer, that is an error only in the first call
    // or after five minutes; until then the last view is returned again.
    [[nodiscard]] base::Result<JobView> look();

  private:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] base::Result<bool> record_changed();
    [[nodiscard]] base::Result<bool> record_of_a_task_changed();

    const store::Store& store_;
    const slurm::Client& client_;
    store::JobKey key_;
    std::chrono::milliseconds longest_pause_;
    std::optional<int> task_;  // of an array job; none: the whole job
    std::chrono::milliseconds pause_{1000};
    Clock::time_point next_question_;
    Clock::time_point last_question_;
    // Of an array job: the newest attempt of each task that runs, and whether it has ended.
    std::map<int, std::pair<int, bool>> seen_;
    bool task_changed_ = false;
    std::optional<Clock::time_point> silent_since_;
    std::optional<record::Attempt> record_;
    std::optional<JobView> view_;
};

// The messages of `job wait`, in the wording of the Azure CLI.

// Formats a time as Python prints it: "2018-06-15 21:43:12.424000+00:00".
[[nodiscard]] std::string python_time(base::Time time);

// Formats a duration as "0:03:25" or "1 day, 2:00:00", with a fraction of a second only if there is
// one.
[[nodiscard]] std::string python_duration(base::Time::duration duration);

// Returns the lines that describe the errors of executionInfo, each with a newline; empty for null.
[[nodiscard]] std::string error_lines(const base::Value& errors);

// Cancels the jobs that have not ended and marks them as stopped by the user. With `wait`, returns
// when Slurm has ended them. If that takes longer than two minutes, it is an error
// (ExitCode::timed_out).
[[nodiscard]] base::Result<void> stop_jobs(const store::Store& store, const slurm::Client& client,
                                           const std::vector<store::Job>& jobs, bool wait);

// Does the same for one task of an array job, without a mark: Slurm knows who has cancelled it.
[[nodiscard]] base::Result<void> stop_task(const store::Store& store, const slurm::Client& client,
                                           const store::Job& job, int task, bool wait);

}  // namespace batchai::status
