// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "node/volumes/steward.hpp"

namespace batchai::node {

// Waits until the storage has all that the job wrote, for at most the plan's flush_seconds; says in
// the log what it waits for. What rclone leaves behind (it was killed, or gave up) is copied.
void flush_volumes(const std::vector<RemoteMount>& mounts, const std::string& job_directory);

// After rclone's end: what the storage does not have is saved to <job directory>/unsaved/<node>/,
// and that is said in the log and in a failure note.
void report_unwritten(const std::vector<RemoteMount>& mounts, const std::string& job_directory);

}  // namespace batchai::node
