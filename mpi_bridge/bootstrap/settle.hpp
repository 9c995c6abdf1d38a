// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

// While slurmstepd starts the tasks of its node it has the user's effective id, and its PMIx server
// then refuses the connections that other nodes make for a fence ("Munge decode failed:
// Unauthorized credential"). They are not made again, and the fence hangs. A task runs only after
// that moment of its own node, so what it has to wait for is the other nodes' moment. Nobody tells
// when that is over. But all nodes start a step at the same time, and how long it took here says
// how busy they are. Measured with Slurm 22.05.8, four nodes sharing two processors: the tasks of
// 27 steps began at most 110 ms apart, where a node took 70 to 190 ms to start its own, and always
// less than 1.4 times what the first of them had taken.
namespace mpi_bridge {

struct TaskStart {
    std::chrono::milliseconds launch{};  // from slurmstepd's start to that of the task
    std::chrono::milliseconds age{};     // of the task
};

// How much longer a task should wait before its first fence: until it is twice as old as its launch
// took, at least 60 ms, and never longer than a second.
[[nodiscard]] std::chrono::milliseconds settling_time(const TaskStart& start);

// The text of /proc/PID/stat; nothing if it cannot be read.
using StatOfProcess = std::function<std::optional<std::string>(int pid)>;

// The task of a Slurm step that `pid` is or descends from, by way of slurmstepd, the nearest
// parent of that name. Nothing if there is none in sight. `now`: milliseconds after boot.
[[nodiscard]] std::optional<TaskStart> find_task_start(const StatOfProcess& stat_of, int pid,
                                                       std::chrono::milliseconds now);

// For a process of a Slurm step: waits as settling_time() says for the task that it belongs to, or,
// where slurmstepd is not in sight (a PID namespace, hidepid), until it is 200 ms old itself.
void let_slurm_settle();

}  // namespace mpi_bridge
