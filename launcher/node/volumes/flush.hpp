// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/child.hpp"
#include "node/volumes/steward.hpp"

namespace batchai::node {

using Clock = std::chrono::steady_clock;

// Work on a file system that may never answer, in a child process of its own, so that giving up
// on it is possible. For single-threaded programs.
class Apart {
  public:
    // `work` returns 0 or an errno.
    explicit Apart(const std::function<int()>& work);
    Apart(Apart&& other) = default;
    Apart& operator=(Apart&&) = delete;
    Apart(const Apart&) = delete;
    Apart& operator=(const Apart&) = delete;
    ~Apart();

    // What the work returned; nothing when it has not by then: it is killed, and may linger until
    // its file system answers.
    [[nodiscard]] std::optional<int> result_by(Clock::time_point end);

  private:
    std::optional<base::Child> child_;
    std::optional<int> result_;
};

// Waits until the storage has all that the job wrote, for at most the plan's flush_seconds; says in
// the log what it waits for. What rclone leaves behind (it was killed, or gave up) is copied.
void flush_volumes(const std::vector<RemoteMount>& mounts, const std::string& job_directory);

// After rclone's end: what the storage does not have is saved to <job directory>/unsaved/<node>/,
// and that is said in the log and in a failure note.
void report_unwritten(const std::vector<RemoteMount>& mounts, const std::string& job_directory);

// Says in the slot what belongs where, for save_leftovers().
[[nodiscard]] base::Result<void> label_slot(const CacheSlot& slot, const plan::Mount& mount,
                                            const std::string& job_directory);

// Before a job's temporary directory goes: waits until nobody stores what is in its caches any
// more, at most until `end`, and saves what is left there, as report_unwritten() does. False when
// somebody still does.
[[nodiscard]] bool save_leftovers(const std::string& job_temp, Clock::time_point end);

}  // namespace batchai::node
