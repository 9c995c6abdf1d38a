// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/record.hpp"
#include "base/timestamp.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"
#include "record/software.hpp"

// The record of one attempt, which is one run of the batch script; a requeue makes the next
// attempt. `batchai run` writes it to <job directory>/attempts/<number>.json at the start of each
// phase and before it exits. It is the first source for a job's state; Slurm's own account is the
// second.
namespace batchai::record {

// The name of the phase in which the job's own command runs.
inline constexpr std::string_view phase_of_ranks = "ranks";

struct Phase {
    std::string name;  // "outputs", "image", "preparation", "wire-up", "ports", "ranks", …
    base::Time start;
    std::optional<base::Time> end;  // none while the phase runs
    int exit_code = 0;              // of the phase; meaningful once `end` is set

    bool operator==(const Phase&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("name", &Phase::name), field("start", &Phase::start),
                          field("end", &Phase::end), field("exitCode", &Phase::exit_code)};
    }
};

// Why the attempt failed. This is the first failure, because the others follow from it.
struct Failure {
    std::string code{};     // "JobFailed", "JobPreparationFailed", "JobTerminated", …
    std::string message{};  // Batch AI's sentence for the code
    std::string phase{};
    std::string node{};         // empty if no node is to blame
    std::optional<int> rank{};  // none if no rank is to blame
    std::optional<int> signal{};
    std::optional<int> exit_code{};
    std::string first_error_line{};  // of that rank's standard error, or Slurm's; may be empty

    bool operator==(const Failure&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("code", &Failure::code),
                          field("message", &Failure::message),
                          field("phase", &Failure::phase),
                          field("node", &Failure::node),
                          field("rank", &Failure::rank),
                          field("signal", &Failure::signal),
                          field("exitCode", &Failure::exit_code),
                          field("firstErrorLine", &Failure::first_error_line)};
    }
};

// A restart of an elastic job's ranks within the attempt.
struct Restart {
    base::Time time;
    std::vector<std::string> nodes;  // where the ranks start again
    Failure failure;                 // why

    bool operator==(const Restart&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("time", &Restart::time), field("nodes", &Restart::nodes),
                          field("failure", &Restart::failure)};
    }
};

// Ranks of an elastic job that were lost while the others have gone on in their processes.
struct Loss {
    base::Time time;
    std::vector<int> ranks;
    int ranks_left = 0;
    Failure failure;  // of the first of them

    bool operator==(const Loss&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("time", &Loss::time), field("ranks", &Loss::ranks),
                          field("ranksLeft", &Loss::ranks_left), field("failure", &Loss::failure)};
    }
};

// That the ranks stood still, as the job's "watch" has noticed.
struct Alarm {
    base::Time time;
    std::string message;        // a sentence
    std::string node{};         // empty if no node is to blame
    std::optional<int> rank{};  // none if no rank is to blame
    std::string where{};        // where that rank was, or in short where all of them were
    std::string stacks{};       // a file of the logs; empty if there is none

    bool operator==(const Alarm&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("time", &Alarm::time),   field("message", &Alarm::message),
                          field("node", &Alarm::node),   field("rank", &Alarm::rank),
                          field("where", &Alarm::where), field("stacks", &Alarm::stacks)};
    }
};

// Returns "the ranks have …, waiting for rank 3 on n2: at train.py:22 in load()", or less if less
// is known.
[[nodiscard]] std::string sentence_of(const Alarm& alarm);

// Whether the job runs again after this attempt, as its "retry" decides.
struct Retried {
    // Set before Slurm is asked, and taken back if Slurm refuses. As long as it is set, the end of
    // the attempt is not the end of the job.
    bool queued = false;
    std::string message;  // a sentence for the user

    bool operator==(const Retried&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("queued", &Retried::queued), field("message", &Retried::message)};
    }
};

struct Attempt {
    int number = 1;  // SLURM_RESTART_COUNT + 1
    std::string slurm_job_id;
    std::vector<std::string> nodes;  // in Slurm's order; the first is the master
    base::Time start;
    std::optional<base::Time> end;  // none: still running, or `batchai run` was killed
    std::optional<int> exit_code;   // of the job; set if `end` is
    // None while the attempt runs.
    std::optional<EndedBy> ended_by;
    std::vector<Phase> phases;
    std::vector<Restart> restarts;
    std::vector<Loss> losses;
    std::vector<Alarm> alarms;  // the first ones, if there were very many
    std::optional<Failure> failure;
    std::optional<Software> software;  // none if the job has no "software", or before it is set up
    std::optional<Retried> retried;    // none if the job has no "retry", or while the attempt runs
    // What users should know of however the attempt has ended: sentences, such as that the logs are
    // not complete.
    std::vector<std::string> warnings;
    // The size of the batch script's log when the attempt began. What Slurm has written there since
    // then is about this attempt or a later one.
    std::optional<std::int64_t> log_begin;

    [[nodiscard]] bool runs_again() const { return retried && retried->queued; }
    // Returns whether the attempt has come to the job's own command, as far as the record tells.
    [[nodiscard]] bool program_began() const;
    bool operator==(const Attempt&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("attempt", &Attempt::number),
                          field("slurmJobId", &Attempt::slurm_job_id),
                          field("nodes", &Attempt::nodes),
                          field("start", &Attempt::start),
                          field("end", &Attempt::end),
                          field("exitCode", &Attempt::exit_code),
                          field("endedBy", &Attempt::ended_by),
                          field("phases", &Attempt::phases),
                          field("restarts", &Attempt::restarts),
                          field("losses", &Attempt::losses).or_missing(),
                          field("alarms", &Attempt::alarms).or_missing(),
                          field("failure", &Attempt::failure),
                          field("software", &Attempt::software),
                          field("retried", &Attempt::retried),
                          field("warnings", &Attempt::warnings),
                          field("logBegin", &Attempt::log_begin)};
    }
};

[[nodiscard]] std::string to_json(const Attempt& attempt);
[[nodiscard]] base::Value to_value(const Software& software);
[[nodiscard]] base::Result<Attempt> attempt_from_json(std::string_view text);

// Returns the newest attempt of a job, or nothing if the job has not started.
[[nodiscard]] base::Result<std::optional<Attempt>> latest_attempt(const JobFiles& files);

// Returns an attempt by its number, or nothing if it left no record.
[[nodiscard]] base::Result<std::optional<Attempt>> attempt_of(const JobFiles& files, int number);

// Returns all attempts of a job, the first one first. There are none if the job has not started.
[[nodiscard]] base::Result<std::vector<Attempt>> all_attempts(const JobFiles& files);

// Corrects in the record of the attempt before `number` who ended that attempt, if `batchai run`
// could not know it there: it was killed, or it took the cause of the new attempt for a
// cancellation by the user. `by` is what other sources say.
[[nodiscard]] base::Result<void> settle_earlier_attempt(const JobFiles& files, int number,
                                                        std::optional<EndedBy> by);

}  // namespace batchai::record
