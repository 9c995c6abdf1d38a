// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "record/task_reports.hpp"

// The check of the GPUs, before the ranks: one task on each node runs mpi_bridge_gpus where the
// ranks will run. This file has the interpretation of the reports.
namespace batchai::run {

// A variable of the job. "0" means that the GPUs are not checked.
inline constexpr const char* gpu_check_variable = "BATCHAI_GPU_CHECK";

// Returns whether the job has GPUs and has not turned the check off. `gpus_on_node` is Slurm's
// SLURM_GPUS_ON_NODE, for GPUs that the user asked for beside the plan; `of_user` is the switch in
// the environment of the job's script.
[[nodiscard]] bool wants_gpu_check(const plan::Plan& plan, const std::string& gpus_on_node,
                                   const std::string& of_user);

// The code of the failure if the GPUs of a node cannot be used.
inline constexpr const char* gpu_check_failed = "GpuCheckFailed";

struct NodeReport {
    std::string node;
    std::optional<record::GpuReport> report;  // absent: the check could not run there
};

struct GpuVerdict {
    // The nodes that cannot be used. The job ends, or leaves them, if there is one.
    std::vector<std::string> bad_nodes{};
    std::string fault{};                 // of the first one
    std::vector<std::string> remarks{};  // for the log: what else is unusual, each with its node
};

// Compares the nodes with each other. A slow GPU, a node whose GPUs are slow, or one without a
// report is only remarked on.
[[nodiscard]] GpuVerdict verdict_on(const std::vector<NodeReport>& nodes);

}  // namespace batchai::run
