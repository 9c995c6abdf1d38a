// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/timestamp.hpp"
#include "record/job_files.hpp"

// What nodes say of a job in its directory. All of it is best effort: a note that cannot be written
// fails nothing, and one that cannot be read is passed over.
namespace batchai::record {

// Why a node could not do its part, in words for the job's record: a step's exit code and output do
// not tell a mount that failed from a program that did.
struct FailureNote {
    std::string code;  // Batch AI's: "AZFMountError", …
    std::string text;  // what failed, and why
    std::string node;

    bool operator==(const FailureNote&) const = default;
};

// The code of the note that data of the job is not where it belongs. It may be written after the
// step, and even after the job.
inline constexpr const char* data_not_written = "DataNotWritten";

// Over an earlier one of the same node.
void write_failure_note(const JobFiles& job, const FailureNote& note);
[[nodiscard]] bool has_failure_note(const JobFiles& job, const std::string& node);
// Of all nodes, the oldest first.
[[nodiscard]] std::vector<FailureNote> failure_notes(const JobFiles& job);
// To be called before a step, whose notes are then the only ones.
void forget_failure_notes(const JobFiles& job);

// That a process of the user's on a node shows a volume which may hold data that its storage does
// not have yet. The process removes the note when the storage has all, or a failure note says what
// it has not.
struct StorageNote {
    std::string node;
    std::string slurm_job_id;
    // Set once the step is over: the process ends by then.
    std::optional<base::Time> until;
    std::string path;  // of the note itself

    bool operator==(const StorageNote&) const = default;
};

// Writes a new note and sets its path, which stays empty when the note cannot be written.
void write_storage_note(const JobFiles& job, StorageNote& note);
void rewrite_storage_note(const StorageNote& note);
void remove_storage_note(const StorageNote& note);
// Of one Slurm job.
[[nodiscard]] std::vector<StorageNote> storage_notes(const JobFiles& job,
                                                     const std::string& slurm_job_id);

}  // namespace batchai::record
