// SPDX-License-Identifier: Apache-2.0
#include "core/process_stat.hpp"

#include <array>
#include <sstream>

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

std::optional<ProcessStat> parse_process_stat(const std::string& text) {
    const auto begin = text.find('(');
    const auto end = text.rfind(')');  // the program's name may hold blanks and parentheses
    if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
    ProcessStat out;
    out.name = text.substr(begin + 1, end - begin - 1);
    std::istringstream fields(text.substr(end + 1));
    std::string skipped;
    fields >> out.state >> out.parent;
    for (int field = 5; field < 22; ++field)
        fields >> skipped;
    fields >> out.start;
    if (!fields) return std::nullopt;
    return out;
}

}  // namespace mpi_bridge
