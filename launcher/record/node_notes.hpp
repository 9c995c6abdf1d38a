// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/record.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"

// What nodes say about a job, in files in the job's directory. All of it is best effort: a note
// that cannot be written causes no failure, and a note that cannot be read is ignored.
namespace batchai::record {

// Says why a node could not do its part, in words for the job's record. A step's exit code and
// output do not tell a mount that failed from a program that failed.
struct FailureNote {
    std::string code;  // Batch AI's code, such as "AZFMountError"
    std::string text;  // what failed, and why
    std::string node;
    std::optional<base::Time> time{};  // none: the present one is written

    bool operator==(const FailureNote&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("code", &FailureNote::code), field("text", &FailureNote::text),
                          field("node", &FailureNote::node), field("time", &FailureNote::time)};
    }
};

// The code of a note that says that not all data of the job reached its storage. Such a note may be
// written after the step, and even after the job.
inline constexpr const char* data_not_written = "DataNotWritten";
inline constexpr std::string_view data_not_written_message =
    "Not all data of the job reached its storage";

// Replaces an earlier note of the same node. A note without a time gets the present one. Returns
// whether it could be written.
bool write_failure_note(const JobFiles& job, const FailureNote& note);
[[nodiscard]] bool has_failure_note(const JobFiles& job, const std::string& node);
// Returns the notes of all nodes, the oldest first.
[[nodiscard]] std::vector<FailureNote> failure_notes(const JobFiles& job);
// Must be called before a step, so that any note found later is about that step.
void forget_failure_notes(const JobFiles& job);

// Says that a process of the user's on a node provides a volume which may hold data that its
// storage does not have yet. The process removes the note once the storage has everything, or once
// a failure note says what the storage lacks.
struct StorageNote {
    std::string node;
    std::string slurm_job_id;
    // Set once the step is over. The process ends by this time.
    std::optional<base::Time> until;
    std::string path;  // of the note itself

    bool operator==(const StorageNote&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("node", &StorageNote::node),
                          field("slurmJobId", &StorageNote::slurm_job_id),
                          field("until", &StorageNote::until)};
    }
};

// Writes a new note and sets its path, which stays empty if the note cannot be written.
void write_storage_note(const JobFiles& job, StorageNote& note);
void rewrite_storage_note(const StorageNote& note);
void remove_storage_note(const StorageNote& note);
// Writes the failure and removes the note. If the failure cannot be written, does the same as
// fail_storage_note().
void end_storage_note(const JobFiles& job, const StorageNote& note, const FailureNote& failure);
// Gives the note the name of a failure note, which needs no room on a full file system.
// failure_notes() reads it as one that only says that not all data was written.
void fail_storage_note(const JobFiles& job, const StorageNote& note);
// Returns the notes of one Slurm job.
[[nodiscard]] std::vector<StorageNote> storage_notes(const JobFiles& job,
                                                     const std::string& slurm_job_id);

}  // namespace batchai::record
