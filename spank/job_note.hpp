// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>

// Notes which jobs have had a sandbox or a batch script of ours on this node. Each job has an empty
// file, named by the job's id, in a directory to which only root can write. So the epilog of any
// other job starts nothing, and no process of the user's can change the notes.
namespace batchai::spank {

// Makes the directory if it is missing. Returns false, with errno, if the file cannot be made.
[[nodiscard]] bool note_job(const std::string& directory, std::uint32_t job_id);

// Returns whether the job was noted, and removes the note.
[[nodiscard]] bool take_note_of_job(const std::string& directory, std::uint32_t job_id);

// Returns whether the job is noted: it has begun on this node, and its epilog has not.
[[nodiscard]] bool is_noted(const std::string& directory, std::uint32_t job_id);

}  // namespace batchai::spank
