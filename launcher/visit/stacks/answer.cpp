// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/answer.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/record.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::visit {

namespace {

constexpr std::string_view schema = "batchai-stacks/v1";
// A line is "batchai-stacks NODE + PART", and the last of a node "batchai-stacks NODE ."
constexpr std::string_view first_word = "batchai-stacks ";
constexpr std::string_view before_part = " +";
constexpr std::string_view last_words = " .";
// slurmstepd passes a line on as a whole if it is no longer than 1024 bytes.
constexpr std::size_t part_bytes = 700;
constexpr std::size_t longest_answer = 64UL << 20U;
constexpr std::size_t longest_line = 4096;

}  // namespace

std::string answer_lines(const NodeStacks& answer) {
    // JSON has no newlines but between its tokens, where blanks for its shape follow.
    const std::string record = base::to_record(answer, schema);
    std::string text;
    for (const std::string_view line : base::split(record, '\n'))
        text += base::trim(line);
    std::string lines;
    for (std::size_t at = 0; at < text.size(); at += part_bytes)
        lines += fmt::format("{}{}{}{}\n", first_word, answer.node, before_part,
                             std::string_view(text).substr(at, part_bytes));
    return lines + fmt::format("{}{}{}\n", first_word, answer.node, last_words);
}

void AnswerReader::feed(std::string_view bytes) {
    rest_ += bytes;
    std::size_t begin = 0;
    for (std::size_t newline = rest_.find('\n'); newline != std::string::npos;
         newline = rest_.find('\n', begin)) {
        take(std::string_view(rest_).substr(begin, newline - begin));
        begin = newline + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() > longest_line) rest_.clear();
}

void AnswerReader::take(std::string_view line) {
    if (!line.starts_with(first_word)) return;
    line.remove_prefix(first_word.size());
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return;
    const std::string_view node = line.substr(0, blank);
    const std::string_view part = line.substr(blank);
    Answer& answer = answers_[std::string(node)];
    if (part == last_words) {
        if (!std::exchange(answer.complete, true)) ++complete_;
    } else if (part.starts_with(before_part) && answer.text.size() < longest_answer) {
        answer.text += part.substr(before_part.size());
    }
}

base::Result<NodeStacks> AnswerReader::answer_of(const std::string& node) const {
    const auto found = answers_.find(node);
    if (found == answers_.end()) return base::fail("has not answered", node);
    if (!found->second.complete) return base::fail("has not answered completely", node);
    auto answer = TRY(base::from_record<NodeStacks>(found->second.text, schema));
    base::each_text(answer, [](std::string& text) { text = base::printable(text); });
    return answer;
}

}  // namespace batchai::visit
