// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "cli/outcome.hpp"
#include "cli/report/planning.hpp"
#include "run/again/watch_first_node.hpp"

namespace batchai::cli {

struct RunVerbOptions {
    std::optional<std::string> plan;    // none: $BATCHAI_PLAN
    std::optional<std::string> digest;  // none: $BATCHAI_PLAN_DIGEST
    // A new plan in place of the frozen one: of this file, else of $BATCHAI_JOB_JSON.
    JobFileOptions file;

    [[nodiscard]] bool wants_new_plan() const {
        return !file.path.empty() || file.job_image || file.ignore_container;
    }
};

// `batchai run` inside an allocation; its exit code is the job's.
[[nodiscard]] Answer run_plan(const RunVerbOptions& options);

// `batchai watch-first-node`, which `batchai run` starts on another node of an elastic job.
[[nodiscard]] Answer watch_first_node(const run::FirstNodeWatch& watch);

struct VersionOptions {};

// The version of this program and, if it answers, of Slurm.
[[nodiscard]] Answer version(const VersionOptions& options);

}  // namespace batchai::cli
