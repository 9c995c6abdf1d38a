// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/deadline.hpp"

namespace mpi_bridge {

// MPI_BRIDGE_LOG names the last level that is printed: error, warning (the default), info, debug.
enum class LogLevel { error, warning, info, debug };

[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view word);

// True when log() prints at this level; ask first when a text is costly to make.
[[nodiscard]] bool logs(LogLevel level);

// Prints one line on standard error, written in one piece:
//   mpi_bridge: rank 3: warning: TEXT
// The rank is left out while it is not known, and the level's word at levels info and debug.
void log(LogLevel level, std::string_view text);

// Logs "WHAT took 12.3 ms" at level debug.
void log_time(std::string_view what, Clock::time_point since);

// Sets the rank that the lines name from now on.
void set_log_rank(int rank);

}  // namespace mpi_bridge
