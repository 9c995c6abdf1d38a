// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/last_words.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "record/job_comment.hpp"

namespace batchai::record {

namespace {

// A newline of JSON is always between its tokens.
std::string in_one_line(std::string_view json) {
    std::string out;
    for (const std::string_view line : base::split(json, '\n'))
        out += base::trim(line);
    return out;
}

}  // namespace

std::string comment_with_end(std::string_view comment, const Attempt& attempt) {
    JobComment out = parse_job_comment(comment);
    Attempt end;
    end.number = attempt.number;
    end.slurm_job_id = attempt.slurm_job_id;
    end.start = attempt.start;
    end.end = attempt.end;
    end.exit_code = attempt.exit_code;
    end.ended_by = attempt.ended_by;
    end.failure = attempt.failure;
    out.end = in_one_line(to_json(end));
    while (end.failure && to_text(out).size() > longest_job_comment) {
        std::string& line = end.failure->first_error_line.empty() ? end.failure->message
                                                                  : end.failure->first_error_line;
        if (line.empty()) break;
        line.resize(line.size() - std::min<std::size_t>(line.size(), 32));
        // The cut may be inside a character.
        line = base::printable(line);
        out.end = in_one_line(to_json(end));
    }
    if (to_text(out).size() > longest_job_comment) out.node_faults.clear();
    return to_text(out);
}

std::optional<Attempt> end_in_comment(std::string_view comment) {
    const JobComment parts = parse_job_comment(comment);
    if (parts.end.empty()) return std::nullopt;
    auto attempt = attempt_from_json(parts.end);
    if (!attempt) return std::nullopt;
    return std::move(*attempt);
}

}  // namespace batchai::record
