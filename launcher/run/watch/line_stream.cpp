// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/line_stream.hpp"

namespace batchai::run {

namespace {

// Of a longer line, only the begin is searched.
constexpr std::size_t longest_line_of_progress = 16UL << 10U;

}  // namespace

bool LineStream::feed(std::size_t stream, std::string_view bytes) {
    std::string& rest = rests_[stream];
    bool found = false;
    while (!bytes.empty()) {
        const std::size_t end = bytes.find_first_of("\r\n");
        const std::string_view part = bytes.substr(0, end);
        rest += part.substr(0, longest_line_of_progress - rest.size());
        if (end == std::string_view::npos) break;
        found = found || pattern_.matches(rest);
        rest.clear();
        bytes.remove_prefix(end + 1);
    }
    return found;
}

}  // namespace batchai::run
