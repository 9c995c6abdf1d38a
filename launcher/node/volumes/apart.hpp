// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <sys/types.h>

namespace batchai::node {

using Clock = std::chrono::steady_clock;

// Work on a file system that may never answer, in a child process of its own, so that giving up
// on it is possible. For single-threaded programs.
class Apart {
  public:
    // `work` returns 0 or an errno.
    explicit Apart(const std::function<int()>& work);
    Apart(Apart&& other) noexcept;
    Apart& operator=(Apart&&) = delete;
    Apart(const Apart&) = delete;
    Apart& operator=(const Apart&) = delete;
    ~Apart();

    // What the work returned; nothing when it has not by then: it is killed, and may linger until
    // its file system answers.
    [[nodiscard]] std::optional<int> result_by(Clock::time_point end);

  private:
    pid_t child_ = -1;
    std::optional<int> result_;
};

// Whether the child ends until then; `status` as of waitpid(2). True as well when there is none.
[[nodiscard]] bool ends_by(pid_t child, Clock::time_point end, int& status);

}  // namespace batchai::node
