// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "visit/stacks/answer.hpp"

namespace batchai::node {

[[nodiscard]] std::vector<pid_t> threads_of(pid_t process);
[[nodiscard]] std::string name_of_thread(pid_t process, pid_t thread);

// Returns the main thread of a process, and those of its threads that are in uninterruptible sleep.
// What the kernel does not tell this user is left out.
[[nodiscard]] std::vector<visit::KernelThread> kernel_threads(pid_t process);

// A call of the kernel, as in /proc/PID/syscall: "0 0x5 0x7f…" is read of descriptor 5.
struct KernelCall {
    std::string_view name;
    int descriptor = -1;  // -1: it is not about a file

    bool operator==(const KernelCall&) const = default;
};
[[nodiscard]] std::optional<KernelCall> kernel_call_in(std::string_view text);

}  // namespace batchai::node
