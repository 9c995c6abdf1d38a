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
// and logs the wait. After a few seconds, also copies the files of a mount itself if its rclone has
// failed at something, because it tries again ever more seldom, or has taken over the slot of
// another one. It does so for all mounts if not `all_served`: an rclone may have been killed. As
// long as an rclone is only slow, a second copy would have it take twice as long.
void flush_volumes(const std::vector<RemoteMount>& mounts, const std::string& job_directory,
                   const std::function<bool()>& all_served);

}  // namespace batchai::node
