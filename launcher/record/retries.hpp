// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "base/record.hpp"
#include "record/job_files.hpp"

// How often a job has been run again, by its "retry" or because of a node's health. Slurm counts
// all of a job's requeues, whoever asked for them, so this count has a file of its own. It is
// written before Slurm is asked to queue the job again.
namespace batchai::record {

struct RetryCount {
    int attempt = 1;  // the newest attempt that is in the count, whether it has begun or not
    int retries = 0;
    // How many attempts in a row, up to the last that ended, made no progress, and what the
    // progress directory looked like when that was seen. Empty: nobody has looked.
    int without_progress = 0;
    std::string progress{};
    int health = 0;  // how often it was queued again because of a node's health

    bool operator==(const RetryCount&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("attempt", &RetryCount::attempt).within(1),
                          field("retries", &RetryCount::retries).within(0),
                          field("withoutProgress", &RetryCount::without_progress).within(0),
                          field("progress", &RetryCount::progress),
                          field("health", &RetryCount::health).within(0)};
    }
};

// Returns nothing if the job has no count yet.
[[nodiscard]] base::Result<std::optional<RetryCount>> read_retry_count(const JobFiles& files);
[[nodiscard]] base::Result<void> write_retry_count(const JobFiles& files, const RetryCount& count);

}  // namespace batchai::record
