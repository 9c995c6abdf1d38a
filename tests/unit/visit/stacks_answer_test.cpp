// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "visit/stacks/answer.hpp"

namespace {

using batchai::visit::answer_lines;
using batchai::visit::AnswerReader;
using batchai::visit::NodeStacks;

NodeStacks answer_of(const std::string& node, std::size_t processes) {
    NodeStacks answer{.node = node, .processes = {}};
    for (std::size_t i = 0; i < processes; ++i) {
        answer.processes.push_back(
            {.process = static_cast<int>(1000 + i),
             .parent = 7,
             .rank = static_cast<int>(i),
             .is_task = true,
             .step = "0",
             .program = "python3 \"tra in.py\"  ü",
             .threads = 3,
             .kernel = {{.id = 1, .name = "a b", .state = "D", .where = "x", .call = "read(/y)"}},
             .python = {{.name = "", .main = true, .frames = {{"/a  b.py", 3, "f"}}}},
             .no_python = {}});
    }
    return answer;
}

// Breaks when an answer is changed on its way, whatever comes between its lines.
TEST(StacksAnswer, ComesBackFromTheLinesOfSeveralNodes) {
    const NodeStacks one = answer_of("n1", 9);
    const NodeStacks two = answer_of("n2", 0);
    const std::string first = answer_lines(one);
    const std::string second = answer_lines(two);
    const auto lines_of_one = batchai::base::split(first, '\n');
    const auto lines_of_two = batchai::base::split(second, '\n');
    ASSERT_GT(lines_of_one.size(), 3U);
    std::string mixed = "Welcome to n1\n";
    for (std::size_t i = 0; i < std::max(lines_of_one.size(), lines_of_two.size()); ++i) {
        if (i < lines_of_one.size()) mixed += std::string(lines_of_one[i]) + "\nprolog: hello\n";
        if (i < lines_of_two.size()) mixed += std::string(lines_of_two[i]) + "\n";
    }
    AnswerReader reader;
    for (std::size_t at = 0; at < mixed.size(); at += 11)
        reader.feed(std::string_view(mixed).substr(at, 11));
    EXPECT_EQ(reader.complete(), 2U);
    ASSERT_TRUE(reader.answer_of("n1")) << reader.answer_of("n1").error().text();
    EXPECT_EQ(*reader.answer_of("n1"), one);
    ASSERT_TRUE(reader.answer_of("n2")) << reader.answer_of("n2").error().text();
    EXPECT_EQ(*reader.answer_of("n2"), two);
}

// Slurm may break a longer line, and put that of another task between its parts.
TEST(StacksAnswer, HasShortLinesOnly) {
    const std::string text = answer_lines(answer_of("a-node-with-quite-a-long-name-0001", 20));
    for (const auto line : batchai::base::split(text, '\n'))
        EXPECT_LT(line.size(), 1024U);
}

TEST(StacksAnswer, SaysWhatIsMissing) {
    const std::string text = answer_lines(answer_of("n1", 3));
    AnswerReader reader;
    reader.feed(std::string_view(text).substr(0, text.size() - 5));
    EXPECT_EQ(reader.complete(), 0U);
    EXPECT_EQ(reader.answer_of("n1").error().what, "has not answered completely");
    EXPECT_EQ(reader.answer_of("n2").error().what, "has not answered");
    reader.feed("\nbatchai-stacks n2 +{\nbatchai-stacks n2 .\nbatchai-stacks \nbatchai-stacks x\n");
    EXPECT_EQ(reader.complete(), 1U);
    EXPECT_FALSE(reader.answer_of("n2"));
}

}  // namespace
