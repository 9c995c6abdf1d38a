// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "visit/stacks/answer.hpp"

namespace batchai::node {

struct NativeQuestion {
    pid_t process = 0;
    std::vector<pid_t> threads;
};

struct NativeAnswer {
    std::map<pid_t, std::vector<visit::StackFrame>> stacks;  // by thread, the innermost frame first
    std::string why;                                         // there is none of some thread
};

// Returns the stacks of C and C++ of threads of this user's processes, the first one of each being
// its main thread. A thread is stopped while its registers and its stack are copied. All of it
// takes at most about `longest`, and the main threads come first. A child of this process does it,
// because a file of the program may be on a file server that does not answer.
[[nodiscard]] std::map<pid_t, NativeAnswer> native_stacks(
    const std::vector<NativeQuestion>& questions, std::chrono::milliseconds longest);

}  // namespace batchai::node
