// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>

namespace batchai::cli {

// The variables of this process that sbatch hands on to the job, for plan::Submission. Not among
// them: what Slurm or a job of ours has set for the very job in which this process runs, which
// means something else in the new one; credentials of a storage account; and values that are not
// UTF-8, which no plan can hold.
[[nodiscard]] std::map<std::string, std::string> login_environment();

}  // namespace batchai::cli
