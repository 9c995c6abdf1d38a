// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "node/volumes/steward.hpp"

namespace batchai::node {

using Clock = std::chrono::steady_clock;

// A child process that works on a file system which may never answer, so that the caller can give
// up on the work. Only for single-threaded programs.
class Apart {
  public:
    // `work` returns 0 or an errno.
    explicit Apart(const std::function<int()>& work);
    Apart(Apart&& other) = default;
    Apart& operator=(Apart&&) = delete;
    Apart(const Apart&) = delete;
    Apart& operator=(const Apart&) = delete;
    ~Apart();

    // Returns what the work returned, or nothing if it has not returned by `end`. In that case the
    // destructor kills the child, which may linger until its file system answers.
    [[nodiscard]] std::optional<int> result_by(Clock::time_point end);

  private:
    std::optional<base::Child> child_;
    std::optional<int> result_;
};

// Waits until the storage has everything that the job wrote, for at most the plan's flush_seconds,
// and logs the wait. After a few seconds, also copies the files itself, because rclone may have
// been killed or may have given up.
void flush_volumes(const std::vector<RemoteMount>& mounts, const std::string& job_directory);

// Called after the end of rclone. Saves what the storage does not have in
// <job directory>/unsaved/<node>/, and reports that in the log and in a failure note.
void report_unwritten(const std::vector<RemoteMount>& mounts, const std::string& job_directory);

// Writes a label into the slot that tells save_leftovers() to which job and volume the files in it
// belong.
[[nodiscard]] base::Result<void> label_slot(const CacheSlot& slot, const plan::Mount& mount,
                                            const std::string& job_directory);

// Called before a job's temporary directory is removed. Waits until `end` at the latest for other
// processes to store what is in the directory's caches. Then saves what they have left, as
// report_unwritten() does. Returns false if a process is still storing.
[[nodiscard]] bool save_leftovers(const std::string& job_temp, Clock::time_point end);

}  // namespace batchai::node
