// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/options.hpp"

namespace batchai::spank {

// job_epilog: if the job is noted on this node (see job_note.hpp), removes what it has left there,
// as the job's user. Waits a few seconds at most; batchai-node finishes longer work by itself. If
// it fails in that time, slurmd's log says so. Any other job costs one system call. Returns nothing
// to Slurm, because a failing epilog would drain the node.
void clean_after_job(spank_t handle, const Settings& settings);

}  // namespace batchai::spank
