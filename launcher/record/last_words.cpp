// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/last_words.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view mark = " batchai-end=";
constexpr std::size_t limit = 1000;

// A newline of JSON is always between its tokens.
std::string in_one_line(std::string_view json) {
    std::string out;
    for (const std::string_view line : base::split(json, '\n'))
        out += base::trim(line);
    return out;
}

}  // namespace

std::string comment_with_end(std::string_view comment, const Attempt& attempt) {
    std::string out(comment.substr(0, comment.find(mark)));
    Attempt end;
    end.number = attempt.number;
    end.slurm_job_id = attempt.slurm_job_id;
    end.start = attempt.start;
    end.end = attempt.end;
    end.exit_code = attempt.exit_code;
    end.ended_by = attempt.ended_by;
    end.failure = attempt.failure;
    std::string words = in_one_line(to_json(end));
    while (end.failure && out.size() + mark.size() + words.size() > limit) {
        std::string& line = end.failure->first_error_line.empty() ? end.failure->message
                                                                  : end.failure->first_error_line;
        if (line.empty()) break;
        line.resize(line.size() - std::min<std::size_t>(line.size(), 32));
        words = in_one_line(to_json(end));
    }
    return out.append(mark).append(words);
}

std::optional<Attempt> end_in_comment(std::string_view comment) {
    const std::size_t at = comment.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    auto attempt = attempt_from_json(comment.substr(at + mark.size()));
    if (!attempt) return std::nullopt;
    return std::move(*attempt);
}

}  // namespace batchai::record
