// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/line_stream.hpp"

namespace batchai::run {

namespace {

// Of a longer line, only the begin is searched.
constexpr std::size_t longest_line_of_progress = 16UL << 10U;
// The stall reports of mpi_bridge/trace/stall.hpp, and other messages of its.
constexpr std::string_view own_reports = "mpi_bridge: rank ";

// Returns whether a line with this begin may be such a message.
bool may_be_report(std::string_view begin) {
    return own_reports.starts_with(begin.substr(0, own_reports.size()));
}

}  // namespace

LinesSeen LineStream::feed(std::size_t stream, std::string_view bytes) {
    std::string& rest = rests_[stream];
    LinesSeen seen;
    while (!bytes.empty()) {
        const std::size_t end = bytes.find_first_of("\r\n");
        const std::string_view part = bytes.substr(0, end);
        rest += part.substr(0, longest_line_of_progress - rest.size());
        const bool is_whole = end != std::string_view::npos;
        const bool is_report = is_whole ? rest.starts_with(own_reports) : may_be_report(rest);
        seen.printed = seen.printed || !is_report;
        if (!is_whole) break;
        seen.progressed = seen.progressed || (!is_report && pattern_ && pattern_->matches(rest));
        rest.clear();
        bytes.remove_prefix(end + 1);
    }
    return seen;
}

}  // namespace batchai::run
