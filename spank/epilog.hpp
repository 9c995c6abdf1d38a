// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/options.hpp"

namespace batchai::spank {

// job_epilog: for a job that had a sandbox on this node, has what it left there removed as the
// job's user. Waits a few seconds at most: batchai-node goes on by itself where it takes longer.
// Any other job costs one system call. Says nothing about success: a failing epilog would drain the
// node.
void clean_after_job(spank_t handle, const Settings& settings);

}  // namespace batchai::spank
