// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>

// Which jobs have had a sandbox on this node: one empty file for each, named by the job's id, in a
// directory that only root can write to. It costs the epilog of any other job one system call, and
// no process of the user's has a say in it.
namespace batchai::spank {

// False, with errno, when the file cannot be made. The directory is made if it is missing.
[[nodiscard]] bool note_job(const std::string& directory, std::uint32_t job_id);

// Whether the job was noted; the note is gone then.
[[nodiscard]] bool take_note_of_job(const std::string& directory, std::uint32_t job_id);

}  // namespace batchai::spank
