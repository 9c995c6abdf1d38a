// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

struct SandboxRequest {
    std::string plan_path;    // absolute
    std::string plan_digest;  // SHA-256 of the file, in hexadecimal
    std::string job_id;       // Slurm's
};

// Reads the plan, moves this process to namespaces of its own and makes the job's directories and
// mounts there. Returns the environment of the job's processes, secrets included. Runs as the user.
[[nodiscard]] base::Result<std::vector<plan::Variable>> make_sandbox(const SandboxRequest& request);

}  // namespace batchai::node
