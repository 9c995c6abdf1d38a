// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

// While slurmstepd starts the tasks of its node, its effective user id is the user's, and its PMIx
// server then refuses the connections that other nodes make for a fence ("Munge decode failed:
// Unauthorized credential"). These connections are not retried, and the fence hangs. When a task
// runs, that phase is over on its own node, but perhaps not on the other nodes, and nothing reports
// when it is. However, all nodes start a step at the same time, and how long the start took here
// shows how busy they are. Measured with Slurm 22.05.8 on four nodes that shared two processors:
// the tasks of 27 steps began at most 110 ms apart, where a node took 70 to 190 ms to start its
// own, and always less than 1.4 times what the first of them had taken.
namespace mpi_bridge {

struct TaskStart {
    std::chrono::milliseconds launch{};  // from slurmstepd's start to that of the task
    std::chrono::milliseconds age{};     // of the task
};

// How many times as old as its launch took a task must be before the first fence of this library,
// and before a program that the plugin starts, which may begin with a fence.
constexpr double before_fence = 2;
constexpr double before_program = 1.5;

// How much longer a task should wait before its first fence. The wait ends when the task is
// `launches` times as old as its launch took, but at least 60 ms old, and lasts a second at most.
[[nodiscard]] std::chrono::milliseconds settling_time(const TaskStart& start, double launches);

// Returns the text of /proc/PID/stat, or nothing if it cannot be read.
using StatOfProcess = std::function<std::optional<std::string>(int pid)>;

// Finds the task of a Slurm step that `pid` is or descends from: the child of the nearest ancestor
// named slurmstepd. Returns nothing if no such ancestor is visible. `now` is in milliseconds after
// boot.
[[nodiscard]] std::optional<TaskStart> find_task_start(const StatOfProcess& stat_of, int pid,
                                                       std::chrono::milliseconds now);

// Makes a process of a Slurm step wait as settling_time() says for its task. Where slurmstepd is
// not visible (a PID namespace, hidepid), it waits until this process is 200 ms old.
void let_slurm_settle(double launches);

}  // namespace mpi_bridge
