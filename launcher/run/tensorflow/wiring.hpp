// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "plan/plan.hpp"
#include "plan/tensorflow.hpp"

// What the tasks of a TensorFlow job are told about each other. All functions are pure.
namespace batchai::run {

// Where a task runs, and the port that is held for it there.
struct TaskPort {
    std::string node;
    int port = 0;

    bool operator==(const TaskPort&) const = default;
};

// The ports of all tasks, in the order of their numbers.
struct TaskPorts {
    std::vector<TaskPort> workers;
    std::vector<TaskPort> parameter_servers;

    bool operator==(const TaskPorts&) const = default;
};

// The line in which a task of the step that holds the ports tells of one of them.
[[nodiscard]] std::string line_of_port(bool of_worker, int task, const TaskPort& port);

// Collects such lines from what the tasks of that step print, and drops all others.
class PortLines {
  public:
    void add(std::string_view printed);
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] const std::string& lines() const { return lines_; }

  private:
    std::string lines_;
    std::string rest_;  // after the last end of a line
    std::size_t count_ = 0;
};

// Reads the lines of all tasks, which come in any order, and ignores any others. It is an error if
// a task of the cluster has none.
[[nodiscard]] base::Result<TaskPorts> read_task_ports(std::string_view lines,
                                                      const plan::TensorFlowCluster& cluster);

// Nodes of the job and their addresses.
struct NodeAddresses {
    const std::vector<std::string>& nodes;
    const std::vector<std::string>& addresses;
};

// The tasks by the addresses and ports at which they find each other.
struct TensorFlowTasks {
    plan::TensorFlowCluster cluster;
    TaskPorts ports;
    std::vector<std::string> workers;  // "ADDRESS:PORT"
    std::vector<std::string> parameter_servers;
};
[[nodiscard]] TensorFlowTasks tensorflow_tasks(const plan::TensorFlowCluster& cluster,
                                               TaskPorts ports, const NodeAddresses& at);

// Returns AZ_BATCHAI_WORKER_HOSTS and AZ_BATCHAI_PS_HOSTS.
[[nodiscard]] base::Environment host_variables(const TensorFlowTasks& tasks);

// Return what a task's shell runs: `command`, with TF_CONFIG unless the job's environment has that
// already. A task that Slurm has started on another node than that of its port fails. If
// `master_end` is not empty, it is a file into which the shell of worker 0 writes a line once
// `command` has ended well.
[[nodiscard]] std::string worker_command(const plan::Plan& plan, const TensorFlowTasks& tasks,
                                         const std::string& command, const std::string& master_end);
[[nodiscard]] std::string parameter_server_command(const plan::Plan& plan,
                                                   const TensorFlowTasks& tasks,
                                                   const std::string& command);

}  // namespace batchai::run
