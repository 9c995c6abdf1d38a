// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/last_words.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view mark = "batchai-end=";
constexpr std::size_t limit = 1000;

// A newline of JSON is always between its tokens.
std::string in_one_line(std::string_view json) {
    std::string out;
    for (const std::string_view line : base::split(json, '\n'))
        out += base::trim(line);
    return out;
}

// Returns where the mark is, at the begin of the comment or after a blank; else its size.
std::size_t place_of_mark(std::string_view comment) {
    std::size_t at = comment.find(mark);
    while (at != std::string_view::npos && at > 0 && comment[at - 1] != ' ')
        at = comment.find(mark, at + 1);
    return std::min(at, comment.size());
}

}  // namespace

std::string comment_with_end(std::string_view comment, const Attempt& attempt) {
    std::string out(base::trim(comment.substr(0, place_of_mark(comment))));
    if (!out.empty()) out += ' ';
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
        // The cut may be inside a character.
        line = base::printable(line);
        words = in_one_line(to_json(end));
    }
    return out.append(mark).append(words);
}

std::optional<Attempt> end_in_comment(std::string_view comment) {
    const std::size_t at = place_of_mark(comment);
    if (at == comment.size()) return std::nullopt;
    auto attempt = attempt_from_json(comment.substr(at + mark.size()));
    if (!attempt) return std::nullopt;
    return std::move(*attempt);
}

}  // namespace batchai::record
