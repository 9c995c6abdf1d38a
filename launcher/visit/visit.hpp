// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "record/job_files.hpp"
#include "slurm/client.hpp"
#include "status/job_view.hpp"
#include "store/store.hpp"

// What the commands share that start a step of their own on a node of a running job: job shell,
// port, cp and stacks, and job node exec. The other parts are:
//
//   copy.hpp     `job cp`: files from and to a node
//   forward.hpp  `job port`, and `job node exec -L`: ports of a node as ports of this host
//   stacks.hpp   `job stacks`: what the processes of all nodes do
//   stacks/      what a node tells of them, and what people see of that
//   relay/       carries several connections through the input and output of one step
//   tar/         packs and unpacks the files of a copy
namespace batchai::visit {

// The node that the user chooses: by name, or as that of a rank.
struct NodeChoice {
    std::optional<std::string> node;
    std::optional<int> rank;
};

struct RunningJob {
    store::Job job;
    std::optional<int> task;  // of an array job
    std::string slurm_id;     // of an array job, that of the task
    std::optional<record::Attempt> attempt;
    std::vector<std::string> nodes;  // in Slurm's order
    record::JobFiles files;          // of an array job, those of the task
    record::JobFiles plan_files;     // where the plan is
};

// Returns whether the job has nodes on which a step can be started.
[[nodiscard]] bool is_running(const status::JobView& view);

// Says in which state a job is that is not running. The message includes Slurm's state, because a
// job that is suspended or being configured is "running" for Batch AI.
[[nodiscard]] base::Error not_running(const status::JobView& view);

// Returns the job, or that task of an array job, if it runs. Otherwise the error says in which
// state it is. Without `task`, it is the first task of an array job that runs.
[[nodiscard]] base::Result<RunningJob> running_job(const store::Store& store,
                                                   const slurm::Client& client,
                                                   const store::JobKey& key,
                                                   std::optional<int> task = {});
[[nodiscard]] base::Result<RunningJob> running_job(const store::Store& store,
                                                   const status::JobView& view);

struct VisitedNode {
    std::string node;
    std::optional<std::string> as_rank;  // the value of BATCHAI_AS_RANK, if a rank was chosen
};

// Finds the node. Without a choice it is that of rank 0 or, as long as there are no ranks, the
// first. An error names the job's nodes or ranks.
[[nodiscard]] base::Result<VisitedNode> choose_node(const RunningJob& running,
                                                    const NodeChoice& choice);

// Tells the user which node was taken if none was chosen and the job has several.
void say_which_node(const RunningJob& running, const NodeChoice& choice, const std::string& node);

// Returns this process's environment without the variables that an enclosing step of Slurm or of
// this program has set, plus the variables of the job's own steps and, with `as_rank`, of the rank.
[[nodiscard]] base::Environment visit_environment(const RunningJob& running,
                                                  const std::optional<std::string>& as_rank = {});
// Does the same for a step on the bare node, without the job's mounts and container.
[[nodiscard]] base::Environment bare_environment();

// Runs srun in the foreground: the terminal, the signals and the exit code are those of its
// command. Returns the exit code. Asks `is_over` now and then; once it returns true, Slurm ends the
// step.
[[nodiscard]] base::Result<int> run_in_foreground(base::Arguments arguments,
                                                  base::Environment environment,
                                                  const std::function<bool()>& is_over);

}  // namespace batchai::visit
