// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/job_comment.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace batchai::record {

namespace {

// Returns where the mark is, at the begin of the comment or after a blank; else its size.
std::size_t place_of_mark(std::string_view comment, std::string_view mark) {
    std::size_t at = comment.find(mark);
    while (at != std::string_view::npos && at > 0 && comment[at - 1] != ' ')
        at = comment.find(mark, at + 1);
    return std::min(at, comment.size());
}

void append_part(std::string& out, std::string_view mark, std::string_view part) {
    if (part.empty()) return;
    if (!out.empty()) out += ' ';
    out.append(mark).append(part);
}

}  // namespace

JobComment parse_job_comment(std::string_view text) {
    JobComment out;
    // The end is JSON, which may have blanks.
    const std::size_t end = place_of_mark(text, end_mark);
    if (end < text.size()) out.end = base::trim(text.substr(end + end_mark.size()));
    const std::string_view head = base::trim(text.substr(0, end));
    const std::size_t at = place_of_mark(head, node_faults_mark);
    out.of_user = base::trim(head.substr(0, at));
    if (at == head.size()) return out;
    const std::string_view tail = head.substr(at + node_faults_mark.size());
    const std::size_t blank = std::min(tail.find(' '), tail.size());
    out.node_faults = tail.substr(0, blank);
    append_part(out.of_user, "", base::trim(tail.substr(blank)));
    return out;
}

std::string to_text(const JobComment& comment) {
    std::string out = comment.of_user;
    append_part(out, node_faults_mark, comment.node_faults);
    append_part(out, end_mark, comment.end);
    return out;
}

}  // namespace batchai::record
