// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Notes which jobs have had a sandbox or a batch script of ours on this node. Each job has an empty
// file, named by the job's id and the node, in a directory to which only root can write. So the
// epilog of any other job starts nothing, and no process of the user's can change the notes.
// Several nodes of a host share the directory, and each has an epilog of its own.
namespace batchai::spank {

// What the names of other files in the directory end with (job_group.hpp).
constexpr std::string_view group_note_suffix = ".group";

// Makes the directory if it is missing. Returns false, with errno, if the file cannot be made.
[[nodiscard]] bool note_job(const std::string& directory, std::uint32_t job_id);

// Returns whether the job was noted, and removes the note.
[[nodiscard]] bool take_note_of_job(const std::string& directory, std::uint32_t job_id);

// Returns whether the job is noted: it has begun on a node of this host, and its epilog there has
// not.
[[nodiscard]] bool is_noted(const std::string& directory, std::uint32_t job_id);

}  // namespace batchai::spank
