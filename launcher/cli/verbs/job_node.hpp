// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "cli/outcome.hpp"
#include "cli/report/names.hpp"
#include "store/records.hpp"

namespace batchai::cli {

struct JobNodeOptions {
    std::string job;
    ParentOptions parents;
    std::optional<std::string> node;     // none: the first
    std::optional<std::string> command;  // none: a shell
    bool terminal = false;
    // Accepted for the Azure CLI's sake: nothing is reached by SSH.
    std::optional<std::string> password;
    std::optional<std::string> ssh_private_key;

    [[nodiscard]] store::JobKey key() const {
        const auto parent = experiment_key(parents);
        return {parent.group, parent.workspace, parent.experiment, job};
    }
};

// The nodes of a job that runs; none of another.
[[nodiscard]] Answer job_node_list(const JobNodeOptions& options);

// Runs a command, or a shell, in the sandbox of a job that runs, on one of its nodes. This process
// becomes Slurm's srun, so that terminal, signals and exit code are the command's: it only returns
// when it could not.
[[nodiscard]] Answer job_node_exec(const JobNodeOptions& options);

}  // namespace batchai::cli
