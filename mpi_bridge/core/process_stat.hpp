// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpi_bridge {

// The fields of /proc/PID/stat (proc(5)) that are used here.
struct ProcessStat {
    std::string name;         // field 2, without its parentheses
    char state = '?';         // field 3
    int parent = 0;           // field 4
    std::uint64_t start = 0;  // field 22: clock ticks after boot
};

// Returns the text of /proc/PID/stat, or nothing if there is no such process or it has ended by the
// time that the file is read.
[[nodiscard]] std::optional<std::string> read_process_stat(std::string_view pid);

// Returns nothing if the text does not have the expected form.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(const std::string& text);

}  // namespace mpi_bridge
