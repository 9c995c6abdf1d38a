// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpi_bridge {

// What /proc/PID/stat says (proc(5)). A process's own time comes with that of its children that
// have ended and that it has waited for.
struct ProcessStat {
    std::string name;  // without its parentheses
    char state = '?';
    int parent = 0;
    std::uint64_t ticks = 0;  // user and system, its own and its children's
    std::uint64_t ticks_of_children = 0;
    int threads = 0;
    std::uint64_t start = 0;  // in ticks since the machine was started
    std::int64_t pages = 0;   // resident

    bool operator==(const ProcessStat&) const = default;
};

// Returns the text of /proc/PID/stat, or nothing if there is no such process or it has ended by the
// time that the file is read.
[[nodiscard]] std::optional<std::string> read_process_stat(std::string_view pid);

// Returns nothing if the text does not have the expected form.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

}  // namespace mpi_bridge
