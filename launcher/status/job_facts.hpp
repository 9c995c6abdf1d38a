// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "base/error.hpp"
#include "status/history/collect.hpp"
#include "status/history/facts.hpp"
#include "status/job_view.hpp"
#include "store/store.hpp"

// The facts of a job for `job events` and `job report`, from the store, Slurm and the job's
// directory.
namespace batchai::status {

// Which job, and of an array job which task.
struct FactsOf {
    store::JobKey key;
    std::optional<int> task;
};

[[nodiscard]] Summary summary_of(const JobView& view);

// Refuses a task of a job that is not an array, and an array job without a task.
[[nodiscard]] base::Result<void> check_task(const store::Store& store, const FactsOf& of);

// `what` tells which further files are read; its summary is filled in here.
[[nodiscard]] base::Result<Facts> facts_of(const store::Store& store, const JobView& view,
                                           const FactsOf& of, Collect what);

}  // namespace batchai::status
