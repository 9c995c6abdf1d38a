// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "cli/output/output.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/rank_waits.hpp"
#include "record/usage.hpp"
#include "slurm/client.hpp"
#include "slurm/job_accounts.hpp"
#include "status/job_view.hpp"
#include "store/store.hpp"

// What a job has used of what it has asked for, in its newest attempt.
namespace batchai::status {

// Returns the number rounded to a tenth, or null if it is not known.
[[nodiscard]] base::Value tenths(const std::optional<double>& number);

struct Efficiency {
    // "samples" of the nodes, Slurm's "accounting", or empty: nobody has counted.
    std::string source;
    std::optional<double> cpu_seconds;
    std::optional<double> cpu_seconds_allocated;
    std::optional<std::int64_t> memory_peak;  // bytes, of the node that used the most
    std::string memory_peak_node;
    std::optional<std::int64_t> memory_requested;  // of a node
    std::optional<std::int64_t> task_memory_peak;  // of a task; only from accounting
    std::optional<double> gpu_busy_percent;        // mean of all GPUs
    int gpus = 0;
    std::vector<std::string> idle_gpus;  // "h1:3": never busy
    // Of the time since the ranks' newest start, in collectives of mpi_bridge: of the median rank.
    std::optional<double> wait_percent;
    std::optional<record::RankWait> awaited_rank;  // for which the others waited
    std::optional<double> queue_seconds;
    std::optional<double> preparation_seconds;
    std::optional<double> run_seconds;  // of the attempt
    std::vector<std::string> advice;    // sentences; only once the job has ended
    // Those of them that are about what was asked for and how much of it was used.
    std::vector<std::string> advice_on_use;
    // That which is about the rank for which the others waited; empty: none.
    std::string advice_on_waits;
};

// What the functions below are told.
struct EfficiencyFacts {
    const record::Attempt& attempt;
    const plan::Plan& plan;
    const std::vector<record::NodeUsage>& usage;  // the newest samples are enough
    std::optional<slurm::JobAccounts> accounts;
    base::Time queued;  // when the attempt began to wait
    base::Time now;
    bool ended = false;
    bool succeeded = false;
};

// Pure.
[[nodiscard]] Efficiency efficiency(const EfficiencyFacts& facts);
[[nodiscard]] base::Value to_value(const Efficiency& efficiency);

// Reads the records of the job, and asks accounting if they say nothing. Returns nothing if the job
// has not started.
[[nodiscard]] base::Result<std::optional<Efficiency>> efficiency_of_job(const store::Store& store,
                                                                        const slurm::Client& client,
                                                                        const JobView& view);

}  // namespace batchai::status
