// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"

namespace mpi_bridge {

// Identifies the process of a rank, so that others can name it when it does not answer.
struct RankIdentity {
    std::string host;
    int process = 0;  // its number on its host
    // ProcessStat::start; distinguishes it from a later process with that number.
    std::uint64_t start = 0;
    [[nodiscard]] static RankIdentity own();
};

// What a rank publishes for the heartbeats of others: its identity, and where its own one listens.
struct HeartbeatAddress {
    RankIdentity identity;
    std::vector<std::byte> endpoint;  // TcpTransport::address()

    [[nodiscard]] std::vector<std::byte> bytes() const;
    [[nodiscard]] static Outcome<HeartbeatAddress> parse(std::span<const std::byte> bytes);
};

// The state of a process's main thread, as a letter of /proc/PID/stat (proc_pid_stat(5)).
namespace process_state {
inline constexpr char ended = '-';    // there is no such process
inline constexpr char unknown = '?';  // it cannot be seen from here
}  // namespace process_state

// The state of a process on this host. It is `unknown` where the number belongs to another process
// here, because the two ranks are in containers with separate process numbers.
[[nodiscard]] char state_of(const RankIdentity& identity);

}  // namespace mpi_bridge
