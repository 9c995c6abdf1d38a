// SPDX-License-Identifier: Apache-2.0
#include "core/process_stat.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace mpi_bridge {

std::optional<std::string> read_process_stat(std::string_view pid) {
    const std::string path = "/proc/" + std::string(pid) + "/stat";
    // A stream would throw if the process ended between open() and read().
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    std::array<char, 2048> text{};
    const ssize_t length = ::read(file, text.data(), text.size());
    ::close(file);
    if (length <= 0) return std::nullopt;
    return std::string(text.data(), static_cast<std::size_t>(length));
}

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
    const auto begin = text.find('(');
    const auto end = text.rfind(')');  // the program's name may hold blanks and parentheses
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin ||
        end + 4 > text.size())
        return std::nullopt;
    // The fields are numbers but for the third, the state.
    constexpr int first = 4;
    constexpr int last = 24;
    std::array<std::int64_t, last + 1> fields{};
    std::string_view rest = text.substr(end + 3);
    for (int number = first; number <= last; ++number) {
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        std::int64_t& field = fields[static_cast<std::size_t>(number)];
        const auto [after, error] = std::from_chars(rest.data(), rest.data() + rest.size(), field);
        // A counter that is too large for this type is not one of those that are used.
        if (error != std::errc() && error != std::errc::result_out_of_range) return std::nullopt;
        field = std::max<std::int64_t>(field, 0);
        rest.remove_prefix(static_cast<std::size_t>(after - rest.data()));
    }
    const auto of_children = static_cast<std::uint64_t>(fields[16] + fields[17]);
    return ProcessStat{.name = std::string(text.substr(begin + 1, end - begin - 1)),
                       .state = text[end + 2],
                       .parent = static_cast<int>(fields[4]),
                       .ticks = static_cast<std::uint64_t>(fields[14] + fields[15]) + of_children,
                       .ticks_of_children = of_children,
                       .threads = static_cast<int>(fields[20]),
                       .start = static_cast<std::uint64_t>(fields[22]),
                       .pages = fields[24]};
}

}  // namespace mpi_bridge
