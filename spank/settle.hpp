// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

// Makes a task of a step on several nodes wait before it runs its program, which may begin with a
// PMIx fence. While slurmstepd starts the tasks of its node, it has the user's effective id, and
// its PMIx server refuses the connections that other nodes make for the fence ("Munge decode
// failed: Unauthorized credential", seen with 22.05.8). The connections are not tried again, and
// the fence hangs. A node cannot find out when the other nodes have started their tasks. But all
// nodes start a step at the same time, and the time that the start took here shows how busy they
// are. docs/performance.md has the figures.
//
// mpi_bridge has a rule of its own for the wait before its first fence, because it also runs where
// this plugin is not installed. Neither of the two includes code of the other.
namespace batchai::spank {

// Returns when a process was started, in clock ticks after boot. `stat` is the text of
// /proc/PID/stat; the time is its field 22 (proc(5)).
[[nodiscard]] std::optional<long long> start_ticks(std::string_view stat);

// Returns how much longer the task should wait: until its age is one and a half times the time that
// its launch took, at least 60 ms and at most one second. `launch` is the time from slurmstepd's
// start to the task's start, `age` the time since then.
[[nodiscard]] std::chrono::milliseconds settling_time(std::chrono::milliseconds launch,
                                                      std::chrono::milliseconds age);

// task_init: called in the task, whose parent is slurmstepd. Where /proc does not show the two
// start times (hidepid), the task waits 200 ms.
void let_slurm_settle();

}  // namespace batchai::spank
