// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/volumes/flush.hpp"
#include "node/volumes/steward.hpp"

// What becomes of data of volumes that their storage does not have. It is saved in
// <job directory>/unsaved/<node>/. If that is not possible either, its cache slot is kept on the
// node as <node root>/unsaved-<slurm job id>-<number>, until a later clean-up of the same user can
// save it or it is too old. No data is removed before that without having been stored or saved.
namespace batchai::node {

// Called after the end of rclone. Saves what the storage does not have, and reports that in the log
// and in a failure note. Returns false if there was such data and no note could be written.
[[nodiscard]] bool report_unwritten(const std::vector<RemoteMount>& mounts,
                                    const std::string& job_directory);

// Writes a label into the slot that tells save_leftovers() to which job and volume the files in it
// belong.
[[nodiscard]] base::Result<void> label_slot(const CacheSlot& slot, const plan::Mount& mount,
                                            const std::string& job_directory);

// Called before <node root>/<name>, a directory of the Slurm job, is removed. Waits until `end` at
// the latest for other processes to store what is in the directory's caches; if one has not
// finished by then, that is an error. Then saves what they have left, as report_unwritten() does.
// Returns false if something could not be saved and is kept.
[[nodiscard]] base::Result<bool> save_leftovers(const base::Root& node_root,
                                                const std::string& name, const std::string& job_id,
                                                Clock::time_point end);

// Tries again to save what has been kept of other jobs than this one, and removes what is older
// than 14 days.
void save_kept(const base::Root& node_root, const std::string& job_id);

}  // namespace batchai::node
