// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "cli/verbs/context.hpp"
#include "status/job_logs.hpp"
#include "status/job_progress.hpp"
#include "store/records.hpp"

// What the verbs share that follow a job.
namespace batchai::cli {

// Longest time between two queries to Slurm about a job that is followed.
inline constexpr std::chrono::seconds slurm_pause{15};

// Where the logs of a job, or of one task of an array job, are.
struct LogPlace {
    record::JobFiles files;
    std::filesystem::path logs;  // empty: not on a file system that this host shares with the nodes
};

// An array job has one place for each task, so that `task` must be given, and only then. `task` is
// checked against the tasks of the job.
[[nodiscard]] base::Result<LogPlace> log_place(const Context& here, const store::JobKey& key,
                                               std::optional<int> task);

// How the lines of several ranks are told apart.
enum class Prefixes {
    none,
    several,  // "host:rank " if more than one rank is chosen
    always,
};

// Prints to standard output. Prefixes are coloured if that is a terminal and $NO_COLOR is not set.
[[nodiscard]] status::JobLogReader::MakePrinter printer_to_output(Prefixes prefixes);

// Prints what the ranks print until the job has ended, Ctrl-C is pressed, or standard output is
// closed. An Interruption must exist.
[[nodiscard]] base::Result<status::Followed> follow_logs(status::JobWatch& watch,
                                                         status::JobLogReader& reader,
                                                         status::JobProgress& progress);

// Follows a job that has just been submitted, and returns the exit code of the command, which is
// the job's. After Ctrl-C the user is asked what is to become of the job; it goes on if nobody can
// be asked. The result is 0 if standard output was closed, and the job goes on. `key` must be that
// of a job which is not an array.
[[nodiscard]] base::Result<int> follow_new_job(const Context& here, const store::Job& job);

}  // namespace batchai::cli
