// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/options.hpp"

namespace batchai::spank {

// job_epilog: removes what the job left in its node-local directory, as the job's user, within a
// deadline. Says nothing about success: a failing epilog would drain the node.
void clean_after_job(spank_t handle, const Settings& settings);

}  // namespace batchai::spank
