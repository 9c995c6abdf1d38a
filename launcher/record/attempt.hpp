// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"

// The record of one attempt (one run of the batch script; a requeue makes the next): written by
// `batchai run` as <job directory>/attempts/<number>.json before it exits and after each phase.
// It is the first source for a job's state; Slurm's own word comes after it.
namespace batchai::record {

struct Phase {
    std::string name;  // "outputs", "image", "preparation", "wire-up", "ranks", "logs"
    base::Time start;
    std::optional<base::Time> end;  // none while it runs
    int exit_code = 0;              // of the step; meaningful once `end` is there

    bool operator==(const Phase&) const = default;
};

// Why the attempt failed: the first failure, since the others follow from it.
struct Failure {
    std::string code{};     // "JobFailed", "JobPreparationFailed", "JobTerminated", …
    std::string message{};  // Batch AI's sentence for the code
    std::string phase{};
    std::string node{};         // empty when no node is to blame
    std::optional<int> rank{};  // none when no rank is to blame
    std::optional<int> signal{};
    std::optional<int> exit_code{};
    std::string first_error_line{};  // of that rank's standard error; may be empty

    bool operator==(const Failure&) const = default;
};

// An elastic job's ranks were started again within the attempt.
struct Restart {
    base::Time time;
    std::vector<std::string> nodes;  // on which the ranks start again
    Failure failure;                 // why

    bool operator==(const Restart&) const = default;
};

struct Attempt {
    int number = 1;  // SLURM_RESTART_COUNT + 1
    std::string slurm_job_id;
    std::vector<std::string> nodes;  // in Slurm's order; the first is the master
    base::Time start;
    std::optional<base::Time> end;  // none: still running, or `batchai run` was killed
    std::optional<int> exit_code;   // of the job; there when `end` is
    // None in the records of older releases, and while the attempt runs.
    std::optional<EndedBy> ended_by;
    std::vector<Phase> phases;
    std::vector<Restart> restarts;
    std::optional<Failure> failure;

    bool operator==(const Attempt&) const = default;
};

[[nodiscard]] std::string to_json(const Attempt& attempt);
[[nodiscard]] base::Result<Attempt> attempt_from_json(std::string_view text);

// The newest attempt of a job, or nothing if it has not started.
[[nodiscard]] base::Result<std::optional<Attempt>> latest_attempt(const JobFiles& files);

// All attempts of a job, the first one first. None if it has not started.
[[nodiscard]] base::Result<std::vector<Attempt>> all_attempts(const JobFiles& files);

// Says in the record of the attempt before `number` who ended it, if it could not say so itself:
// `batchai run` was killed, or took for a cancellation what was followed by a new attempt.
// `by` is what is known otherwise.
[[nodiscard]] base::Result<void> settle_earlier_attempt(const JobFiles& files, int number,
                                                        std::optional<EndedBy> by);

}  // namespace batchai::record
