// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/deadline.hpp"

namespace mpi_bridge {

// MPI_BRIDGE_LOG names the last level that is printed: error, warning (the default), info, debug.
enum class LogLevel { error, warning, info, debug };

[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view word);

// True when log() prints at this level; asks before a text is costly to make.
[[nodiscard]] bool logs(LogLevel level);

// One line on standard error, written in one piece:
//   mpi_bridge: rank 3: warning: TEXT
// Without the rank while it is not known, without the level's word from info on.
void log(LogLevel level, std::string_view text);

// "WHAT took 12.3 ms", at level debug.
void log_time(std::string_view what, Clock::time_point since);

// Which rank the lines name from now on.
void set_log_rank(int rank);

}  // namespace mpi_bridge
