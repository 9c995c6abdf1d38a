// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

// Asks processes that mpi_bridge/python/mpi_bridge/hook/batchai_stacks.py has armed for the stacks
// of threads. That file says how they can be asked.
namespace batchai::node {

struct PythonQuestion {
    pid_t process = 0;
    std::vector<pid_t> threads;  // the first is the main thread
};

struct PythonAnswer {
    // What each thread has written; nothing of a thread that runs no Python code.
    std::map<pid_t, std::string> dumps;
    // Why the main thread has written nothing. Empty, too, if the process is not armed, or its main
    // thread is stopped or in uninterruptible sleep.
    std::string why;
};

// Asks all processes at once, and the threads of each one after the other. Those that have not
// answered by then are asked no longer.
[[nodiscard]] std::map<pid_t, PythonAnswer> ask_for_python_stacks(
    const std::vector<PythonQuestion>& questions, std::chrono::milliseconds longest);

}  // namespace batchai::node
