// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

// What the kernel wants of who traces a process. It asks for the same user, and the security module
// Yama, where it is in force, for more: with kernel.yama.ptrace_scope at 1, that who traces is an
// ancestor, and with 2 that it has CAP_SYS_PTRACE. Both let us trace the tasks of a job, because
// these are in a user namespace that this user has made, below the one in which we are: over it,
// its owner has all capabilities (user_namespaces(7)). With 3, nobody may trace anything.
namespace batchai::node {

// Returns why the kernel does not let us look into a process, or one of its threads, by errno.
[[nodiscard]] std::string why_not_allowed(pid_t process);

// Returns the reason for a refusal. `scope` is that of Yama, empty where it is not in force, and
// `tracer` is who traces the process already, or 0.
[[nodiscard]] std::string reason_of_refusal(std::string_view scope, pid_t tracer);

}  // namespace batchai::node
