// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/timestamp.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/retries.hpp"

// Whether a job that has failed is run again. This part asks nobody.
namespace batchai::run {

// How an attempt has ended.
struct AttemptEnd {
    record::EndedBy by = record::EndedBy::program;
    int exit_code = 1;
};

// Returns whether the job wants to be run again after this end.
[[nodiscard]] bool wants(const plan::Retry& retry, const AttemptEnd& end);

// Returns whether a job that has had its allocation from `start` until `end` has enough time left
// to run again in it: at least half. A job that is queued again has its whole time again. A time
// that is not known counts as without limit.
[[nodiscard]] bool leaves_time(const std::optional<base::Time>& start,
                               const std::optional<base::Time>& end, base::Time now);

// Returns why the job is not run again after this end, as a clause that follows "the job is not run
// again: ". Returns nothing if it is run again. Returns an empty text if the job does not want to
// be run again after such an end, which needs no explanation. `count` is the count before.
[[nodiscard]] std::optional<std::string> why_not_again(const plan::Retry& retry,
                                                       const AttemptEnd& end,
                                                       const record::RetryCount& count);

// Returns the count for the next attempt. `progress` is what the progress directory looks like now;
// empty if nobody can tell.
[[nodiscard]] record::RetryCount counted(record::RetryCount count, int next_attempt,
                                         const std::string& progress);

// Returns a text that changes whenever a file below the directory is written, added or removed: the
// number of files, their bytes, and the newest time of change. Links are not followed. Returns an
// empty text if the directory cannot be read, or holds more than `most` files and directories.
[[nodiscard]] std::string progress_in(const std::filesystem::path& directory,
                                      std::size_t most = 20000);

// Returns what `look` returns, or an empty text if it takes longer than the deadline. The look is
// that of a child process, because a file server that does not answer may stop it for good; such a
// child is killed and left behind. This process must not have several threads.
[[nodiscard]] std::string looked_at(const std::function<std::string()>& look,
                                    std::chrono::milliseconds deadline);

}  // namespace batchai::run
