// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

// A wait before a task of a step on several nodes runs its program, which may begin with a fence of
// PMIx. While slurmstepd starts the tasks of its node it has the user's effective id, and its PMIx
// server then refuses the connections that other nodes make for the fence ("Munge decode failed:
// Unauthorized credential", seen with 22.05.8). They are not made again, and the fence hangs.
// Nobody tells when the other nodes are past that moment; but all nodes start a step at the same
// time, and how long it took here says how busy they are. docs/performance.md has the figures.
//
// mpi_bridge waits by a rule of its own before its first fence, because it also runs where this
// plugin is not installed; neither of the two includes the other.
namespace batchai::spank {

// When a process was started, in clock ticks after boot: field 22 of /proc/PID/stat (proc(5)).
[[nodiscard]] std::optional<long long> start_ticks(std::string_view stat);

// How much longer the task should wait: until it is half again as old as its launch took, at least
// 60 ms, and never longer than a second. `launch` is the time from slurmstepd's start to the
// task's, `age` the time since.
[[nodiscard]] std::chrono::milliseconds settling_time(std::chrono::milliseconds launch,
                                                      std::chrono::milliseconds age);

// task_init, in the task, whose parent is slurmstepd. Where /proc shows none of that (hidepid), the
// task waits until it is 200 ms old, counted from this call.
void let_slurm_settle();

}  // namespace batchai::spank
