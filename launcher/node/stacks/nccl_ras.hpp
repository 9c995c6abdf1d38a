// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

// Asks NCCL's RAS for the state of its communicators. Since NCCL 2.24, each process that uses NCCL
// has a thread of it; they know of each other, and one process of each host answers on a port.
namespace batchai::node {

// Returns the port in "HOST:PORT", as the variable NCCL_RAS_ADDR has it; 0 if there is none.
[[nodiscard]] std::uint16_t port_of_ras(std::string_view address);

// Returns the port that these processes use by their environment.
[[nodiscard]] std::uint16_t port_of_ras(const std::vector<pid_t>& processes);

// Asks the one of these processes, which are of this user, that listens on the port, and returns
// the lines that it says, which are of all hosts of the job, and one that says so if these are not
// all. Empty if none of them listens there:
// the port may be that of another user's job, who is sent nothing and whose word is not taken.
[[nodiscard]] std::vector<std::string> nccl_status(const std::vector<pid_t>& processes,
                                                   std::uint16_t port,
                                                   std::chrono::milliseconds longest);

}  // namespace batchai::node
